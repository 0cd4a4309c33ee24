//! The panic-safe shell of a running model. [`thread`] owns the context, a [`pool`] prepares work for it,
//! results come back as a [`Job`] or by an [`outbox`], and a [`Handle`] keeps it all open.
//! The engine and the embedder are this shell with verbs of their own.

pub(crate) mod handle;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod notify;
pub(crate) mod outbox;
pub(crate) mod per_process;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod ticket;

pub use handle::{Handle, Service};
pub use job::Job;
pub use notify::{Listener, Notify};
pub use per_process::PerProcess;
pub use process::{OwnedByProcess, Owner};
