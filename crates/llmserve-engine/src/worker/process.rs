//! Values that belong to one process. A forked child has none of the engine's threads, and a lock that one of
//! them held at the fork is never released there: the child must not even try.

use std::mem;

use crate::error::Error;

/// Why an engine of another process cannot be used.
pub(crate) const FORKED: &str = "this process is a fork of the one that loaded the model";

/// The process that made something which a fork cannot take along (threads, locks they hold).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        Self { pid: std::process::id() }
    }

    /// False in a forked child, where no lock may be taken: its holder may not exist.
    #[must_use]
    pub fn is_current(self) -> bool {
        self.pid == std::process::id()
    }

    /// An owner as a forked child finds it, made by its parent.
    #[cfg(test)]
    pub(crate) fn of_another_process() -> Self {
        Self { pid: 0 }
    }
}

/// A value with locks and threads behind it, out of reach in a forked child. There it is leaked
/// instead of dropped.
#[derive(Clone)]
pub struct OwnedByProcess<T> {
    owner: Owner,
    /// `None` once the value was taken out.
    value: Option<T>,
}

impl<T> OwnedByProcess<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { owner: Owner::current(), value: Some(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// [`Error::EngineDead`] in a forked child.
    pub fn get(&self) -> Result<&T, Error> {
        let value = self.value.as_ref().filter(|_| self.owner.is_current());
        value.ok_or(Error::EngineDead { reason: FORKED })
    }

    /// Takes the value out, for a drop of its own; `None` in a child.
    pub fn take(&mut self) -> Option<T> {
        self.value.take_if(|_| self.owner.is_current())
    }
}

impl<T> Drop for OwnedByProcess<T> {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            mem::forget(self.value.take());
        }
    }
}
