//! The handles that keep a running model open, and what they can ask of any model.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::model_info::ModelInfo;
use crate::stats::Stats;

use super::process::OwnedByProcess;
use super::shared::Shared;

/// A running model. Referring to it does not keep it open, unlike a [`Handle`].
pub struct Service {
    shared: Arc<Shared>,
    info: ModelInfo,
    /// The count of handles that keep the model open.
    num_holders: AtomicUsize,
    /// Tells the threads to end.
    stop: OwnedByProcess<Box<dyn Fn() + Send + Sync>>,
}

impl Service {
    /// Counters and gauges as of the last step.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.shared.owner().is_current() { self.shared.stats() } else { Stats::default() }
    }

    /// Facts about the model.
    #[must_use]
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Why the model is dead; `None` while it lives.
    #[must_use]
    pub fn dead_reason(&self) -> Option<&'static str> {
        self.shared.dead_reason()
    }

    /// Whether [`Self::shutdown`] was called, or everybody has left.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.shared.is_shut_down()
    }

    /// Ends waiting and running requests with [`crate::Error::ShutDown`] and frees the context. Returns at
    /// once.
    pub fn shutdown(&self) {
        if let Ok(stop) = self.stop.get()
            && self.shared.set_shut_down()
        {
            stop();
        }
    }

    /// Waits until a shutdown is complete and the memory is freed. What is still being prepared two seconds
    /// after the rest has ended, such as a large schema, is left behind with its memory.
    pub fn join(&self) {
        if self.shared.owner().is_current() {
            self.shared.join();
        }
    }
}

/// Keeps a running model open. It ends with the last clone, and dropping that one waits for the end.
pub struct Handle {
    service: Arc<Service>,
    has_left: AtomicBool,
}

impl Handle {
    /// The first handle of a model with these threads; `stop` tells them to end.
    pub(crate) fn new(shared: Arc<Shared>, info: ModelInfo, stop: impl Fn() + Send + Sync + 'static) -> Self {
        let stop = OwnedByProcess::new(Box::new(stop) as Box<dyn Fn() + Send + Sync>);
        let service = Service { shared, info, num_holders: AtomicUsize::new(1), stop };
        Self { service: Arc::new(service), has_left: AtomicBool::new(false) }
    }

    /// The model, without keeping it open.
    #[must_use]
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Gives this handle up, like dropping it, but does not wait. The last one to leave shuts the model
    /// down.
    pub fn close(&self) {
        if self.service.shared.owner().is_current()
            && !self.has_left.swap(true, Ordering::AcqRel)
            && self.service.num_holders.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.service.shutdown();
        }
    }

    /// Whether [`Self::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.service.shared
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        let has_left = self.is_closed();
        if !has_left {
            self.service.num_holders.fetch_add(1, Ordering::AcqRel);
        }
        Self { service: Arc::clone(&self.service), has_left: AtomicBool::new(has_left) }
    }
}

impl Deref for Handle {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
        if self.service.num_holders.load(Ordering::Acquire) == 0 {
            self.service.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::queue::Queue;

    fn handle() -> (Handle, Arc<AtomicUsize>) {
        let stopped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stopped);
        let shared = Arc::new(Shared::new(Queue::new(1, 1)));
        let stop = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        (Handle::new(shared, ModelInfo::default(), stop), stopped)
    }

    #[test]
    fn the_last_one_to_leave_ends_it_once() {
        let (first, stopped) = handle();
        let second = first.clone();
        first.close();
        first.close();
        // Has left, as what it is a clone of.
        let third = first.clone();
        drop(third);
        assert!(first.is_closed() && !first.is_shut_down());
        assert_eq!(stopped.load(Ordering::SeqCst), 0);
        drop(second);
        assert!(first.is_shut_down());
        drop(first);
        assert_eq!(stopped.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_shutdown_waits_for_nobody_to_leave() {
        let (first, stopped) = handle();
        let second = first.clone();
        second.shutdown();
        assert!(first.is_shut_down() && !first.is_closed());
        drop((first, second));
        assert_eq!(stopped.load(Ordering::SeqCst), 1);
    }
}
