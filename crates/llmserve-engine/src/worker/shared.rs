//! The state that the handle, the prepare threads and the engine thread of one engine share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::error::Error;
use crate::event::Event;
use crate::ids::RequestId;
use crate::stats::Stats;

use super::lock::lock;
use super::outbox::Outbox;
use super::process::{FORKED, Owner};
use super::queue::Queue;

/// How long the end waits for threads that need not finish: a large text is tokenized in less. Longer
/// work may take minutes, and keeps nothing but memory.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(2);

/// State of an engine that outlives its threads.
pub(crate) struct Shared {
    owner: Owner,
    pub(crate) queue: Arc<Queue>,
    /// Number of requests that were submitted and that the engine thread does not yet count as waiting or running.
    pub(crate) num_preparing: AtomicUsize,
    pub(crate) num_refused: AtomicU64,
    /// Given up before they were queued.
    pub(crate) num_cancelled: AtomicU64,
    num_constraints: AtomicU64,
    constraint_nanoseconds: AtomicU64,
    load_time: OnceLock<Duration>,
    is_shut_down: AtomicBool,
    dead: OnceLock<&'static str>,
    /// The counters as the engine thread left them after its last step.
    stats: Mutex<Stats>,
    /// Every request that is not over, so that none waits for ever when the engine ends.
    live: Mutex<HashMap<RequestId, Weak<Outbox>>>,
    threads: Mutex<Threads>,
    thread_ended: Condvar,
}

/// Threads that have not ended.
#[derive(Default)]
struct Threads {
    /// Threads whose work must be finished: one owns the context, one writes files.
    num_needed: usize,
    /// Threads that prepare work for them.
    num_others: usize,
    /// The end has waited for the others, in vain.
    is_left_behind: bool,
}

impl Shared {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            owner: Owner::current(),
            queue: Arc::new(queue),
            num_preparing: AtomicUsize::new(0),
            num_refused: AtomicU64::new(0),
            num_cancelled: AtomicU64::new(0),
            num_constraints: AtomicU64::new(0),
            constraint_nanoseconds: AtomicU64::new(0),
            load_time: OnceLock::new(),
            is_shut_down: AtomicBool::new(false),
            dead: OnceLock::new(),
            stats: Mutex::default(),
            live: Mutex::default(),
            threads: Mutex::default(),
            thread_ended: Condvar::new(),
        }
    }

    /// Whose threads these are. In a forked child nothing else here may be touched, but for
    /// [`Self::refusal`].
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = *lock(&self.stats);
        stats.num_preparing = self.num_preparing.load(Ordering::Relaxed);
        stats.requests_refused = self.num_refused.load(Ordering::Relaxed);
        stats.requests_cancelled += self.num_cancelled.load(Ordering::Relaxed);
        stats.constraints = self.num_constraints.load(Ordering::Relaxed);
        let compiling = Duration::from_nanos(self.constraint_nanoseconds.load(Ordering::Relaxed));
        stats.constraint_seconds = compiling.as_secs_f64();
        stats.load_seconds = self.load_time.get().map_or(0.0, Duration::as_secs_f64);
        stats
    }

    /// Counts a constraint that took some time to compile.
    pub(crate) fn note_constraint(&self, took: Duration) {
        self.num_constraints.fetch_add(1, Ordering::Relaxed);
        self.constraint_nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Keeps how long the load took, once it is over.
    pub(crate) fn note_load(&self, took: Duration) {
        self.load_time.get_or_init(|| took);
    }

    pub(crate) fn publish(&self, stats: &Stats) {
        *lock(&self.stats) = *stats;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// True the first time.
    pub(crate) fn set_shut_down(&self) -> bool {
        !self.is_shut_down.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn dead_reason(&self) -> Option<&'static str> {
        if self.owner.is_current() { self.dead.get().copied() } else { Some(FORKED) }
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

    /// Why accepted work ends without a result.
    pub(crate) fn why_lost(&self) -> Error {
        let panicked = || std::thread::panicking().then_some(Error::Internal);
        self.refusal().or_else(panicked).unwrap_or(Error::ShutDown)
    }

    pub(crate) fn register(&self, outbox: &Arc<Outbox>) {
        lock(&self.live).insert(outbox.id, Arc::downgrade(outbox));
    }

    pub(crate) fn forget(&self, id: RequestId) {
        lock(&self.live).remove(&id);
    }

    /// Ends every live request with an error; returns their number.
    pub(crate) fn fail_all(&self, error: &Error) -> usize {
        let live: Vec<Arc<Outbox>> =
            lock(&self.live).drain().filter_map(|(_, outbox)| outbox.upgrade()).collect();
        for outbox in &live {
            outbox.push_now(Event::Failed(error.clone()));
        }
        live.len()
    }

    /// Waits until the threads have ended and their memory is freed. Work that is still being prepared after
    /// some time is left behind.
    pub(crate) fn join(&self) {
        let threads = self.thread_ended.wait_while(lock(&self.threads), |threads| threads.num_needed > 0);
        let threads = threads.unwrap_or_else(PoisonError::into_inner);
        let is_waited_for = |threads: &mut Threads| threads.num_others > 0 && !threads.is_left_behind;
        let waited = self.thread_ended.wait_timeout_while(threads, LEFT_BEHIND_AFTER, is_waited_for);
        let (mut threads, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            threads.is_left_behind = true;
            let num_others = threads.num_others;
            drop(threads);
            log::warn!("{num_others} threads are left behind with what they prepare");
        }
    }
}

/// A thread that has not ended, until it is dropped.
pub(crate) struct Running {
    shared: Arc<Shared>,
    is_needed: bool,
}

impl Running {
    /// A thread; with `is_needed`, the end waits for it however long it takes.
    pub(crate) fn new(shared: &Arc<Shared>, is_needed: bool) -> Self {
        let new = Self { shared: Arc::clone(shared), is_needed };
        *new.count(&mut lock(&shared.threads)) += 1;
        new
    }

    fn count<'a>(&self, threads: &'a mut Threads) -> &'a mut usize {
        if self.is_needed { &mut threads.num_needed } else { &mut threads.num_others }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.count(&mut lock(&self.shared.threads)) -= 1;
        self.shared.thread_ended.notify_all();
    }
}
