//! A request on its way to the thread that computes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::event::{Event, Finished};

use super::outbox::Outbox;
use super::shared::Shared;

/// Counts a request as being prepared, until it is dropped or handed over.
pub(crate) struct Preparing {
    /// `None` once the request was handed over.
    shared: Option<Arc<Shared>>,
}

impl Preparing {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.num_preparing.fetch_add(1, Ordering::Relaxed);
        Self { shared: Some(Arc::clone(shared)) }
    }

    /// Leaves the count to the thread that has the request now, which takes it out once it has counted
    /// the request as waiting.
    pub(crate) fn hand_over(mut self) {
        self.shared = None;
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A request that the engine thread does not have yet. If it is lost on the way, it ends with the
/// reason why.
pub(crate) struct Ticket {
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
    /// `None` once the request was answered or handed over.
    preparing: Option<Preparing>,
}

impl Ticket {
    pub(crate) fn new(outbox: Arc<Outbox>, shared: &Arc<Shared>) -> Self {
        shared.register(&outbox);
        Self { outbox, shared: Arc::clone(shared), preparing: Some(Preparing::new(shared)) }
    }

    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Ends the request, which was not accepted.
    pub(crate) fn refuse(mut self, error: Error) {
        self.end(error);
    }

    /// Ends a request that its client gave up.
    pub(crate) fn cancel(mut self, finished: Finished) {
        self.preparing = None;
        self.shared.forget(self.outbox.id);
        self.shared.num_cancelled.fetch_add(1, Ordering::Relaxed);
        self.outbox.push_now(Event::Finished(finished));
    }

    /// The engine thread has the request.
    pub(crate) fn hand_over(mut self) {
        if let Some(preparing) = self.preparing.take() {
            preparing.hand_over();
        }
    }

    fn end(&mut self, error: Error) {
        self.preparing = None;
        self.shared.num_refused.fetch_add(1, Ordering::Relaxed);
        self.shared.forget(self.outbox.id);
        self.outbox.push_now(Event::Failed(error));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.preparing.is_some() {
            self.end(self.shared.why_lost());
        }
    }
}
