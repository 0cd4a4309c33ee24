//! Which process an engine belongs to.

/// The process that made something which a fork cannot take along (threads, locks they hold).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: u32,
}

impl Owner {
    pub(crate) fn current() -> Self {
        Self { pid: std::process::id() }
    }

    /// False in a forked child, where no lock may be taken: its holder may not exist.
    pub(crate) fn is_current(self) -> bool {
        self.pid == std::process::id()
    }
}
