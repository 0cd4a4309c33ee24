//! Sessions as Python objects. Every method returns at once.

use std::path::PathBuf;

use llmserve_engine::{Job, NextTurn, OwnedByProcess, Session, SessionInfo, SessionMode, SessionUse};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::PyEngine;
use crate::errors::{exception, invalid_parameter};
use crate::exit;
use crate::fields::Field;
use crate::tokens::TokenizeJob;
use crate::wakeup::PyListener;
use crate::{info, jobs};

/// A conversation with one engine.
#[pyclass(frozen, name = "Session", module = "llmserve._core")]
pub(crate) struct PySession {
    session: OwnedByProcess<Session>,
    /// An engine without other holders stays open for its sessions.
    _engine: Py<PyEngine>,
}

impl PySession {
    pub(crate) fn new(session: Session, engine: Py<PyEngine>) -> Self {
        Self { session: OwnedByProcess::new(session), _engine: engine }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&Session> {
        exit::hold_caller_at_exit(py);
        self.session.get().map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl PySession {
    /// Number of tokens after the last call that has ended.
    fn num_tokens(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.num_tokens())
    }

    /// Whether the tokens come from a chat template.
    fn is_templated(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.is_templated())
    }

    /// The tokens after the last call that has ended; all are there at once.
    fn tokens(&self, py: Python<'_>) -> PyResult<TokenizeJob> {
        Ok(TokenizeJob::new(Job::done(self.get(py)?.tokens())))
    }

    /// Empties the session once its turn comes.
    fn reset(&self, py: Python<'_>, listener: &PyListener) -> PyResult<SessionJob> {
        Ok(SessionJob::new(self.get(py)?.reset(Some(listener.0.clone()))))
    }

    /// Writes the session to a file once its turn comes.
    fn save(&self, py: Python<'_>, path: PathBuf, listener: &PyListener) -> PyResult<SessionJob> {
        Ok(SessionJob::new(self.get(py)?.save(path, Some(listener.0.clone()))))
    }

    /// Reads the session from a file once its turn comes.
    fn load(&self, py: Python<'_>, path: PathBuf, listener: &PyListener) -> PyResult<SessionJob> {
        Ok(SessionJob::new(self.get(py)?.load(path, Some(listener.0.clone()))))
    }
}

/// A call of a session that is waiting or being done. Dropping it gives up a call that waits.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct SessionJob(OwnedByProcess<Job<()>>);

impl SessionJob {
    fn new(job: Job<()>) -> Self {
        Self(OwnedByProcess::new(job))
    }
}

#[pymethods]
impl SessionJob {
    /// True once, when it is done; `None` before. Raises its failure.
    fn take(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        Ok(jobs::take(py, &self.0)?.map(|()| true))
    }

    /// Gives up a waiting call. A cancelled task may live on in the traceback of its exception.
    fn cancel(&self) {
        if let Ok(job) = self.0.get() {
            job.cancel();
        }
    }
}

/// The session argument of `submit`: the session, the relation of the prompt to it (True: it is appended, False:
/// it replaces the session, or a `NextTurn`), and whether it counts as templated afterwards.
#[derive(FromPyObject)]
pub(crate) struct SessionArgument<'py>(Bound<'py, PySession>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl SessionArgument<'_> {
    pub(crate) fn into_use(self) -> PyResult<SessionUse> {
        let Self(session, append, templated) = self;
        let templated = Field::new("templated", templated, invalid_parameter).bool()?;
        let append = Field::new("append", append, invalid_parameter);
        let mode = match append.is_bool() {
            true if append.bool()? => SessionMode::Append,
            true => SessionMode::Replace,
            false => SessionMode::AppendTurn(next_turn(&append)?),
        };
        Ok(SessionUse { session: session.get().get(session.py())?.clone(), mode, templated })
    }
}

fn next_turn(turn: &Field<'_>) -> PyResult<NextTurn> {
    Ok(NextTurn {
        turn: turn.attribute("turn")?.text()?,
        end_of_turn: turn.attribute("end_of_turn")?.text()?,
        after_end: turn.attribute("after_end")?.text()?,
    })
}

/// Reads the header of a session file and verifies its checksum, without the GIL: the fields of
/// `llmserve.SessionInfo`.
#[pyfunction]
pub(crate) fn inspect_session(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let result = exit::detach(py, move || llmserve_engine::inspect_session(&path));
    let found: SessionInfo = result.map_err(|error| exception(py, &error.into()))?;
    info::session_info(py, &found)
}
