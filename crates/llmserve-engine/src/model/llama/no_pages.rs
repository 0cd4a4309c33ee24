//! Where the system has no pages that can be given back and read as zeros: ggml's own buffers.

/// Leaves ggml as it is.
pub(super) fn install() {}

/// Runs `make`.
pub(super) fn collecting<T>(make: impl FnOnce() -> T) -> (T, Vec<CacheTensor>) {
    (make(), Vec::new())
}

/// There are none.
#[derive(Debug, Clone, Copy)]
pub(super) enum CacheTensor {}

impl CacheTensor {
    /// Never called.
    ///
    /// # Safety
    /// Always safe.
    pub(super) unsafe fn give_back(&self, _sequence: usize, _num_sequences: usize) {
        match *self {}
    }
}
