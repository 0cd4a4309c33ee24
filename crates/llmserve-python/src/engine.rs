//! An engine and its requests as Python objects. Every method returns at once, but for `join`.

use std::sync::{Mutex, PoisonError};

use llmserve_engine::{Delivery, Engine, OwnedByProcess, RequestHandle, Submission};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::drafting::{DraftingArgument, HeadJob};
use crate::errors::{exception, invalid_parameter};
use crate::events::Pending;
use crate::fields::Field;
use crate::held::Held;
use crate::request::{PromptArgument, SpecialArgument, generation_request};
use crate::session::{PySession, SessionArgument};
use crate::tenant::TenantArgument;
use crate::tokens::{CachedTokensJob, DetokenizeJob, TokenBuffer, TokenizeJob};
use crate::wakeup::PyListener;
use crate::{events, exit, info};

/// The parts of a request, beside its parameters.
type Input<'py> = (
    PromptArgument<'py>,
    Option<SessionArgument<'py>>,
    Option<DraftingArgument<'py>>,
    Vec<u8>,
    TenantArgument,
);

/// A loaded model.
#[pyclass(frozen, name = "Engine", module = "llmserve._core")]
pub(crate) struct PyEngine {
    held: Held<Engine>,
}

impl PyEngine {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { held: Held::new(engine) }
    }

    /// The engine, unless this is a forked child or it was shut down.
    fn open(&self, py: Python<'_>) -> PyResult<&Engine> {
        self.held.open(py)
    }
}

#[pymethods]
impl PyEngine {
    /// Submits a request; a refusal by the engine arrives as an event. `input` is (prompt, session or
    /// `None`, drafting or `None`, `begun`, tenant or `None`): the prompt is (text or token ids, `add_special`, `special`: plain, control or
    /// marked), the session (session, relation of the prompt to it, `templated`), the drafting (head or `None` for
    /// prompt lookup, `draft_len`, `adaptive`), and `begun` has the prompt's last bytes that count as output. With `at_end`, only acceptance and the end wake the receiver.
    fn submit(
        slf: &Bound<'_, Self>,
        input: Input<'_>,
        params: &Bound<'_, PyAny>,
        at_end: bool,
        listener: &PyListener,
    ) -> PyResult<Request> {
        let delivery = if at_end { Delivery::AtEnd } else { Delivery::Streaming };
        let engine = slf.get().open(params.py())?;
        let (prompt, session, drafting, begun, TenantArgument(tenant)) = input;
        let session = session.map(SessionArgument::into_use).transpose()?;
        let (drafting, head) = drafting.map(DraftingArgument::into_drafting).transpose()?.unzip();
        let request = generation_request(prompt.into_prompt()?, begun, params, drafting, delivery)?;
        let submission = Submission { session, head: head.flatten(), tenant, ..request.into() };
        let handle = engine.submit(submission, Some(listener.0.clone()));
        let handle = OwnedByProcess::new(handle);
        Ok(Request { handle, pending: Mutex::default(), _engine: slf.clone().unbind() })
    }

    /// A new session with the tokens of another one.
    fn copy_session(slf: &Bound<'_, Self>, session: &Bound<'_, PySession>) -> PyResult<PySession> {
        let py = slf.py();
        let copy = slf.get().open(py)?.copy_session(session.get().get(py)?);
        Ok(PySession::new(copy.map_err(|error| exception(py, &error))?, slf.clone().unbind()))
    }

    /// A new, empty session.
    fn session(slf: &Bound<'_, Self>) -> PyResult<PySession> {
        let session = slf.get().open(slf.py())?.new_session();
        Ok(PySession::new(session, slf.clone().unbind()))
    }

    /// Begins to open the model's own draft head.
    fn open_head(&self, py: Python<'_>, listener: &PyListener) -> PyResult<HeadJob> {
        Ok(HeadJob::new(self.open(py)?.open_head(Some(listener.0.clone()))))
    }

    /// Begins to list the tokens that have cells which every request may use.
    fn cached_tokens(&self, py: Python<'_>, listener: &PyListener) -> PyResult<CachedTokensJob> {
        Ok(CachedTokensJob::new(self.open(py)?.cached_tokens(Some(listener.0.clone()))))
    }

    /// Begins to tokenize a text.
    fn tokenize(
        &self,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        special: SpecialArgument,
        listener: &PyListener,
    ) -> PyResult<TokenizeJob> {
        let engine = self.open(text.py())?;
        let text = Field::new("text", text.clone(), invalid_parameter).text()?;
        let listener = Some(listener.0.clone());
        Ok(TokenizeJob::new(engine.tokenize(text, add_special, special.0, listener)))
    }

    /// Begins to turn token ids, which are taken out of the buffer, into bytes.
    fn detokenize(
        &self,
        py: Python<'_>,
        tokens: &TokenBuffer,
        render_special: bool,
        listener: &PyListener,
    ) -> PyResult<DetokenizeJob> {
        let engine = self.open(py)?;
        let job = engine.detokenize(tokens.take(), render_special, Some(listener.0.clone()));
        Ok(DetokenizeJob::new(job))
    }

    /// Counters and gauges: the fields of `llmserve.Stats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::stats(py, &self.held.get(py)?.stats())
    }

    /// Facts about the model: the fields of `llmserve.ModelInfo`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::model_info(py, self.held.get(py)?.info())
    }

    /// Raises `EngineDeadError` or `EngineClosedError` if it cannot be used any more.
    fn check_alive(&self, py: Python<'_>) -> PyResult<()> {
        self.held.check_alive(py)
    }

    /// Whether `shutdown` was called.
    fn is_shut_down(&self) -> bool {
        self.held.is_shut_down()
    }

    /// Ends every request, unless another load shares this engine; returns at once.
    fn shutdown(&self) {
        self.held.shutdown();
    }

    /// Blocks, without the GIL, until the memory is free; at once if another load shares this
    /// engine.
    fn join(&self, py: Python<'_>) {
        self.held.join(py);
    }
}

/// A submitted request. Dropping it aborts the request.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct Request {
    handle: OwnedByProcess<RequestHandle>,
    /// Events that were fetched from the engine and not taken yet. Locked for a few instructions only.
    pending: Mutex<Pending>,
    /// An engine without other holders stays open until its requests are read.
    _engine: Py<PyEngine>,
}

#[pymethods]
impl Request {
    /// The request's number, unique within its engine.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.get().map_err(|error| exception(py, &error))?.id().0)
    }

    /// The events since the last call with at most `limit` tokens; the rest comes with the next.
    /// `None` if there are none.
    fn take<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        let handle = self.handle.get().map_err(|error| exception(py, &error))?;
        let events = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.extend(handle.take());
            pending.take(limit)
        };
        exit::hold_caller_at_exit(py);
        if events.is_empty() {
            return Ok(None);
        }
        events.into_iter().map(|event| events::event(py, event)).collect::<PyResult<_>>().map(Some)
    }

    /// Ends the request within one step; its last event says so.
    fn abort(&self) {
        if let Ok(handle) = self.handle.get() {
            handle.abort();
        }
    }
}
