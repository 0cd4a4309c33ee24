//! The results of an engine's jobs for Python.

use llmserve_engine::{Error, Job, OwnedByProcess};
use pyo3::prelude::*;

use crate::errors::exception;
use crate::exit;

/// The result of a job, once; `None` while it runs. Raises its failure.
pub(crate) fn take<T>(py: Python<'_>, job: &OwnedByProcess<Job<T>>) -> PyResult<Option<T>> {
    taken(py, job.get().map(Job::take))
}

/// Returns what was taken from a job to the caller, except at the end of the interpreter.
pub(crate) fn taken<T>(
    py: Python<'_>,
    result: Result<Option<Result<T, Error>>, Error>,
) -> PyResult<Option<T>> {
    exit::hold_caller_at_exit(py);
    result.and_then(Option::transpose).map_err(|error| exception(py, &error))
}
