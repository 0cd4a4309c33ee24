//! How the engine tells a receiver that there is something to take.

use std::sync::Arc;

/// A receiver that is notified when something can be taken from a handle.
///
/// Called from engine threads: implementations must not block. `flush` follows any number of
/// `ready` calls, once per step, so that one wake-up serves a whole event loop.
pub trait Notify: Send + Sync {
    /// The handle that was submitted under `key` has something.
    fn ready(&self, key: u64);
    /// Wake the receiver for everything that `ready` named since the last flush.
    fn flush(&self);
}

/// Whom to notify, and under which key (the caller chooses it).
#[derive(Clone)]
pub struct Listener {
    /// The receiver.
    pub notify: Arc<dyn Notify>,
    /// The key of the handle there.
    pub key: u64,
}

impl Listener {
    /// Notifies and wakes the receiver at once.
    pub(crate) fn wake(&self) {
        self.notify.ready(self.key);
        self.notify.flush();
    }
}

/// The receivers that were notified in a step and wait for their flush.
#[derive(Default)]
pub(crate) struct PendingFlush {
    receivers: Vec<Arc<dyn Notify>>,
}

impl PendingFlush {
    /// Notifies a receiver now, to be flushed with the others.
    pub(crate) fn tell(&mut self, listener: &Listener) {
        listener.notify.ready(listener.key);
        if !self.receivers.iter().any(|known| Arc::ptr_eq(known, &listener.notify)) {
            self.receivers.push(Arc::clone(&listener.notify));
        }
    }

    /// Wakes every receiver that was notified, once.
    pub(crate) fn flush(&mut self) {
        for receiver in self.receivers.drain(..) {
            receiver.flush();
        }
    }
}
