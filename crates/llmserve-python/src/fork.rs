//! What belongs to one process. A forked child has none of the engine's threads, and a lock that
//! one of them held at the fork is never released there: the child must not even try.

use std::mem;

use llmserve_engine::Error;

/// The process in which something was made.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_current(self) -> bool {
        self.0 == std::process::id()
    }
}

/// A value with locks and threads behind it, out of reach in a forked child. There it is leaked
/// instead of dropped.
pub(crate) struct OwnedByProcess<T> {
    process: Process,
    /// `None` only while dropping.
    value: Option<T>,
}

impl<T> OwnedByProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: Process::current(), value: Some(value) }
    }

    /// The value, or why a child cannot have it.
    pub(crate) fn get(&self) -> Result<&T, Error> {
        self.value
            .as_ref()
            .filter(|_| self.process.is_current())
            .ok_or(Error::EngineDead { reason: "this process is a fork of the one that loaded the model" })
    }

    /// Takes the value out, for a drop of its own; `None` in a child.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.value.take_if(|_| self.process.is_current())
    }
}

impl<T> Drop for OwnedByProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            mem::forget(self.value.take());
        }
    }
}
