//! The memory that a model's constraints take, as far as it is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;

/// Beyond this many bytes no further specification is taken, until requests have ended. A grammar takes at most
/// some 300 MB.
const MAX_BYTES: usize = 1 << 30;

/// Counts what is alive: compiled grammars, once however many requests wait for them, and the states of
/// those that run.
#[derive(Debug, Default, Clone)]
pub(super) struct Memory(Arc<AtomicUsize>);

/// Memory that is counted while this lives.
#[derive(Debug)]
pub(super) struct Counted {
    memory: Memory,
    num_bytes: usize,
}

impl Memory {
    pub(super) fn count(&self, num_bytes: usize) -> Counted {
        self.0.fetch_add(num_bytes, Ordering::Relaxed);
        Counted { memory: self.clone(), num_bytes }
    }

    /// # Errors
    /// [`Error::QueueFull`] if there is no room for more.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.num_bytes() > MAX_BYTES {
            let retry_after = Duration::from_secs(1);
            return Err(Error::QueueFull { limit: MAX_BYTES, unit: "bytes of constraints", retry_after });
        }
        Ok(())
    }

    pub(super) fn num_bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counted {
    pub(super) fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Counts further bytes in the same memory.
    pub(super) fn again(&self, num_bytes: usize) -> Self {
        self.memory.count(num_bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.num_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alive_is_counted_and_too_much_is_refused() {
        let memory = Memory::default();
        let half = memory.count(MAX_BYTES / 2);
        let more = half.again(MAX_BYTES / 2 + 1);
        assert!(matches!(memory.check(), Err(Error::QueueFull { limit: MAX_BYTES, .. })));
        drop(more);
        assert!(memory.check().is_ok());
        drop(half);
        assert_eq!(memory.num_bytes(), 0);
    }
}
