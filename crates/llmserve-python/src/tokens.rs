//! Token ids between Python and the engine: read with checks, and handed over in pieces, since a
//! list of a million ids takes longer to build than an event loop may stand still.

use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

use llmserve_engine::{CachedTokens, Job, OwnedByProcess, TokenId};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::errors::invalid_parameter;
use crate::fields::Field;
use crate::jobs;

/// Reads token ids.
pub(crate) fn token_ids(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<TokenId>> {
    let refused = |item: &Bound<'_, PyAny>, expected| {
        Field::new(field, item.clone(), invalid_parameter).refused(expected)
    };
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(refused(value, "a sequence of token ids"));
    }
    let items = value.try_iter().map_err(|_| refused(value, "a sequence of token ids"))?;
    let mut tokens = Vec::with_capacity(value.len().unwrap_or_default());
    for item in items {
        let item = item?;
        let id = (!item.is_instance_of::<PyBool>()).then(|| item.extract::<i32>().ok()).flatten();
        tokens.push(TokenId(id.ok_or_else(|| refused(&item, "a token id"))?));
    }
    Ok(tokens)
}

/// Token ids that are gathered piece by piece.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct TokenBuffer(Mutex<Vec<TokenId>>);

#[pymethods]
impl TokenBuffer {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Appends token ids.
    fn extend(&self, tokens: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut tokens = token_ids("tokens", tokens)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(&mut tokens);
        Ok(())
    }
}

impl TokenBuffer {
    /// The ids; the buffer is empty afterwards.
    pub(crate) fn take(&self) -> Vec<TokenId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A text that is being tokenized.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct TokenizeJob {
    job: OwnedByProcess<Job<Vec<TokenId>>>,
    rest: Mutex<Option<IntoIter<TokenId>>>,
}

impl TokenizeJob {
    pub(crate) fn new(job: Job<Vec<TokenId>>) -> Self {
        Self { job: OwnedByProcess::new(job), rest: Mutex::new(None) }
    }
}

#[pymethods]
impl TokenizeJob {
    /// At most `limit` of the ids that have not been taken yet: `None` while the job runs, an empty
    /// list after the last id.
    fn take(&self, py: Python<'_>, limit: usize) -> PyResult<Option<Vec<i32>>> {
        let next = |job: &Job<Vec<TokenId>>| {
            // No Python code runs under this lock: another thread may wait for it with the GIL.
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            if rest.is_none() {
                match job.take()? {
                    Ok(tokens) => *rest = Some(tokens.into_iter()),
                    Err(error) => return Some(Err(error)),
                }
            }
            rest.as_mut().map(|rest| Ok(rest.by_ref().take(limit).map(|token| token.0).collect()))
        };
        jobs::taken(py, self.job.get().map(next))
    }
}

/// Token ids that are being turned into bytes.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct DetokenizeJob(OwnedByProcess<Job<Vec<u8>>>);

impl DetokenizeJob {
    pub(crate) fn new(job: Job<Vec<u8>>) -> Self {
        Self(OwnedByProcess::new(job))
    }
}

#[pymethods]
impl DetokenizeJob {
    /// The bytes, once; `None` while the job runs.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = jobs::take(py, &self.0)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

/// The tokens that have cells, as they are being listed.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct CachedTokensJob(OwnedByProcess<Job<CachedTokens>>);

impl CachedTokensJob {
    pub(crate) fn new(job: Job<CachedTokens>) -> Self {
        Self(OwnedByProcess::new(job))
    }
}

/// Token sequences as Python gets them: 32-bit integers of this machine.
type Sequences<'py> = Vec<Bound<'py, PyBytes>>;

#[pymethods]
impl CachedTokensJob {
    /// The sequences in slots and those in host memory, once; `None` while the job runs.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<(Sequences<'py>, Sequences<'py>)>> {
        let bytes = |tokens: Vec<TokenId>| {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.0.to_ne_bytes()).collect();
            PyBytes::new(py, &bytes)
        };
        let sequences = |all: Vec<Vec<TokenId>>| all.into_iter().map(bytes).collect();
        let cached = jobs::take(py, &self.0)?;
        Ok(cached.map(|cached| (sequences(cached.in_slots), sequences(cached.parked))))
    }
}
