//! The hold of a Python object on a loaded model: until it is closed, and not at all in a child process.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llmserve_engine::{Error, Handle, OwnedByProcess, Service};
use pyo3::prelude::*;

use crate::errors::exception;
use crate::{exit, registry};

/// One holder's part in a loaded model of type `T`, an `Engine` or an `Embedder`.
pub(crate) struct Held<T: Deref<Target = Handle> + Send + 'static> {
    model: OwnedByProcess<T>,
    is_joined: AtomicBool,
}

impl<T: Deref<Target = Handle> + Send + 'static> Held<T> {
    pub(crate) fn new(model: T) -> Self {
        registry::track_model(model.service());
        Self { model: OwnedByProcess::new(model), is_joined: AtomicBool::new(false) }
    }

    /// The model, unless this is a forked child or it was shut down.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<&T> {
        exit::hold_caller_at_exit(py);
        let model = self.get(py)?;
        if model.is_closed() {
            return Err(exception(py, &Error::ShutDown));
        }
        Ok(model)
    }

    /// The model, even after its shutdown, unless this is a forked child.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.model.get().map_err(|error| exception(py, &error))
    }

    /// Raises `EngineDeadError` or `EngineClosedError` if it cannot be used any more.
    pub(crate) fn check_alive(&self, py: Python<'_>) -> PyResult<()> {
        match self.open(py)?.dead_reason() {
            Some(reason) => Err(exception(py, &Error::EngineDead { reason })),
            None => Ok(()),
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.model.get().is_ok_and(|model| model.is_closed())
    }

    /// Ends every request, unless another load shares the model; returns at once.
    pub(crate) fn shutdown(&self) {
        if let Ok(model) = self.model.get() {
            model.close();
        }
    }

    /// Blocks, without the GIL, until the memory is free; at once if another load shares the model.
    pub(crate) fn join(&self, py: Python<'_>) {
        let Ok(model) = self.model.get() else {
            return;
        };
        let service: &Arc<Service> = model.service();
        if service.is_shut_down() {
            exit::detach(py, || service.join());
            self.is_joined.store(true, Ordering::Release);
        }
    }
}

impl<T: Deref<Target = Handle> + Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(model) = self.model.take() else {
            return;
        };
        model.close();
        if !self.is_joined.load(Ordering::Acquire) {
            registry::release(model);
        }
    }
}
