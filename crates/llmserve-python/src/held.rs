//! A loaded model as a Python object holds it: until it is closed, or in a child process not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llmserve_engine::Error;
use pyo3::prelude::*;

use crate::errors::exception;
use crate::exit;
use crate::fork::OwnedByProcess;
use crate::registry::{self, LoadedModel, Shared};

/// One holder's part in a loaded model.
pub(crate) struct Held<T: LoadedModel> {
    shared: OwnedByProcess<Arc<Shared<T>>>,
    is_shut_down: AtomicBool,
    is_joined: AtomicBool,
}

impl<T: LoadedModel> Held<T> {
    pub(crate) fn new(model: T) -> Self {
        Self {
            shared: OwnedByProcess::new(registry::adopt(model)),
            is_shut_down: AtomicBool::new(false),
            is_joined: AtomicBool::new(false),
        }
    }

    /// The model, unless this is a forked child or it was shut down.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<&T> {
        exit::hold_caller_at_exit(py);
        let model = self.get(py)?;
        if self.is_shut_down() {
            return Err(exception(py, &Error::ShutDown));
        }
        Ok(model)
    }

    /// The model, also after its shutdown, unless this is a forked child.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        let shared = self.shared.get().map_err(|error| exception(py, &error))?;
        Ok(&shared.model)
    }

    /// Raises `EngineDeadError` or `EngineClosedError` if it cannot be used any more.
    pub(crate) fn check_alive(&self, py: Python<'_>) -> PyResult<()> {
        match self.open(py)?.dead_reason() {
            Some(reason) => Err(exception(py, &Error::EngineDead { reason })),
            None => Ok(()),
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// Ends every request, unless another load shares the model; returns at once.
    pub(crate) fn shutdown(&self) {
        if let Ok(shared) = self.shared.get() {
            self.leave(shared);
        }
    }

    /// Blocks, without the GIL, until the memory is free; at once if another load shares the model.
    pub(crate) fn join(&self, py: Python<'_>) {
        let Ok(shared) = self.shared.get() else {
            return;
        };
        if !shared.is_shut_down() {
            return;
        }
        py.detach(|| {
            shared.model.join();
            exit::hold_thread_at_exit();
        });
        self.is_joined.store(true, Ordering::Release);
    }

    fn leave(&self, shared: &Shared<T>) {
        if !self.is_shut_down.swap(true, Ordering::AcqRel) {
            shared.leave();
        }
    }
}

impl<T: LoadedModel> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        self.leave(&shared);
        if self.is_joined.load(Ordering::Acquire) {
            return;
        }
        registry::release(shared);
    }
}
