//! Drafting as Python gives it: the hold on an engine's draft context, and how a request drafts.

use std::sync::{Mutex, PoisonError};

use llmserve_engine::{DraftMethod, Drafting, Head, Job, OwnedByProcess};
use pyo3::prelude::*;

use crate::errors::{exception, invalid_parameter};
use crate::fields::Field;
use crate::jobs;

/// Keeps the draft context of an engine open. It is freed with the last head and the last request that has one.
#[pyclass(frozen, name = "Head", module = "llmserve._core")]
pub(crate) struct PyHead(OwnedByProcess<Head>);

/// A head that is being opened.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct HeadJob(OwnedByProcess<Mutex<Option<Job<Head>>>>);

impl HeadJob {
    pub(crate) fn new(job: Job<Head>) -> Self {
        Self(OwnedByProcess::new(Mutex::new(Some(job))))
    }
}

#[pymethods]
impl HeadJob {
    /// The head, once; `None` before. Raises its failure.
    fn take(&self, py: Python<'_>) -> PyResult<Option<PyHead>> {
        let taken = |job: &Mutex<Option<Job<Head>>>| {
            job.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Job::take)
        };
        let head = jobs::taken(py, self.0.get().map(taken))?;
        Ok(head.map(|head| PyHead(OwnedByProcess::new(head))))
    }

    /// Gives the head back, now or when it is there. A cancelled task may live on in the traceback of its
    /// exception, and this with it.
    fn cancel(&self) {
        if let Ok(job) = self.0.get() {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Not under the lock: it may hold the last head, whose end tells the engine.
            drop(job);
        }
    }
}

/// What `submit` takes as drafting: the head (`None`: prompt lookup), `draft_len` and `adaptive`.
#[derive(FromPyObject)]
pub(crate) struct DraftingArgument<'py>(Option<Bound<'py, PyHead>>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl DraftingArgument<'_> {
    /// How to draft, and what holds the head open that drafts.
    pub(crate) fn into_drafting(self) -> PyResult<(Drafting, Option<Head>)> {
        let Self(head, draft_len, adaptive) = self;
        let head = head.map(|head| {
            let opened = head.get().0.get().map_err(|error| exception(head.py(), &error))?;
            PyResult::Ok(opened.clone())
        });
        let drafting = Drafting {
            method: if head.is_some() { DraftMethod::Head } else { DraftMethod::PromptLookup },
            draft_len: Field::new("draft_len", draft_len, invalid_parameter).uint()?,
            adaptive: Field::new("adaptive", adaptive, invalid_parameter).bool()?,
        };
        Ok((drafting, head.transpose()?))
    }
}
