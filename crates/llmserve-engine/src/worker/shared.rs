//! What the handle, the prepare threads and the engine thread of one engine share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

use crate::error::Error;
use crate::event::Event;
use crate::ids::RequestId;
use crate::lock::lock;
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::stats::Stats;

/// State of an engine that outlives its threads.
pub(crate) struct Shared {
    pub(crate) queue: Arc<Queue>,
    /// From submission until the engine thread has counted the request as waiting or running.
    pub(crate) num_preparing: AtomicUsize,
    pub(crate) num_refused: AtomicU64,
    /// Given up before they were queued.
    pub(crate) num_cancelled: AtomicU64,
    is_shut_down: AtomicBool,
    dead: OnceLock<&'static str>,
    /// As the engine thread left it after its last step.
    stats: Mutex<Stats>,
    /// Every request that is not over, so that none waits for ever when the engine ends.
    live: Mutex<HashMap<RequestId, Weak<Outbox>>>,
    num_threads: Mutex<usize>,
    thread_ended: Condvar,
}

impl Shared {
    pub(crate) fn new(queue: Queue, num_threads: usize) -> Self {
        Self {
            queue: Arc::new(queue),
            num_preparing: AtomicUsize::new(0),
            num_refused: AtomicU64::new(0),
            num_cancelled: AtomicU64::new(0),
            is_shut_down: AtomicBool::new(false),
            dead: OnceLock::new(),
            stats: Mutex::default(),
            live: Mutex::default(),
            num_threads: Mutex::new(num_threads),
            thread_ended: Condvar::new(),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = *lock(&self.stats);
        stats.num_preparing = self.num_preparing.load(Ordering::Relaxed);
        stats.requests_refused = self.num_refused.load(Ordering::Relaxed);
        stats.requests_cancelled += self.num_cancelled.load(Ordering::Relaxed);
        stats
    }

    pub(crate) fn publish(&self, stats: Stats) {
        *lock(&self.stats) = stats;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// True the first time.
    pub(crate) fn set_shut_down(&self) -> bool {
        !self.is_shut_down.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn dead_reason(&self) -> Option<&'static str> {
        self.dead.get().copied()
    }

    pub(crate) fn set_dead(&self, reason: &'static str) {
        self.dead.get_or_init(|| reason);
    }

    /// Why a request cannot be taken, if so.
    pub(crate) fn refusal(&self) -> Option<Error> {
        match self.dead_reason() {
            Some(reason) => Some(Error::EngineDead { reason }),
            None => self.is_shut_down().then_some(Error::ShutDown),
        }
    }

    pub(crate) fn register(&self, outbox: &Arc<Outbox>) {
        lock(&self.live).insert(outbox.id, Arc::downgrade(outbox));
    }

    pub(crate) fn forget(&self, id: RequestId) {
        lock(&self.live).remove(&id);
    }

    /// Refuses a request that was not accepted.
    pub(crate) fn refuse(&self, outbox: &Outbox, error: Error) {
        self.num_refused.fetch_add(1, Ordering::Relaxed);
        self.forget(outbox.id);
        outbox.push_now(Event::Failed(error));
    }

    /// Ends every live request with an error; how many there were.
    pub(crate) fn fail_all(&self, error: &Error) -> usize {
        let live: Vec<Arc<Outbox>> =
            lock(&self.live).drain().filter_map(|(_, outbox)| outbox.upgrade()).collect();
        for outbox in &live {
            outbox.push_now(Event::Failed(error.clone()));
        }
        live.len()
    }

    pub(crate) fn thread_starts(&self) {
        *lock(&self.num_threads) += 1;
    }

    pub(crate) fn thread_ended(&self) {
        *lock(&self.num_threads) -= 1;
        self.thread_ended.notify_all();
    }

    /// Waits until all threads have ended and what they held is freed.
    pub(crate) fn join(&self) {
        let mut num_threads = lock(&self.num_threads);
        while *num_threads > 0 {
            num_threads = self.thread_ended.wait(num_threads).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
