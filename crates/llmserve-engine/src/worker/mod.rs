//! The shell of a thread that owns a context: how work comes to it, how results come back, how it ends.

pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod lock;
pub(crate) mod notify;
pub(crate) mod outbox;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod shared;

pub use job::Job;
pub use notify::{Listener, Notify};
pub use outbox::RequestHandle;
