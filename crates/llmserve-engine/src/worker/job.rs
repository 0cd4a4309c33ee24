//! A result that another thread is computing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::Error;

use super::lock::lock;
use super::notify::Listener;
use super::shared::Shared;

/// The place where one side puts a result and the other takes it.
struct Slot<T> {
    result: Mutex<Outcome<T>>,
    done: Condvar,
    cancelled: AtomicBool,
    listener: Option<Listener>,
}

enum Outcome<T> {
    Awaited,
    Here(Result<T, Error>),
    Taken,
}

impl<T> Outcome<T> {
    /// The result, once.
    fn take(&mut self) -> Option<Result<T, Error>> {
        match std::mem::replace(self, Self::Taken) {
            Self::Here(result) => return Some(result),
            Self::Awaited => *self = Self::Awaited,
            Self::Taken => {}
        }
        None
    }
}

/// A result in the making. Dropping it cancels the work if that has not begun.
pub struct Job<T> {
    slot: Arc<Slot<T>>,
}

/// The sender of the result. Dropped without a result, it says why there is none.
pub(crate) struct JobSender<T> {
    slot: Arc<Slot<T>>,
    /// The threads that do the work.
    shared: Arc<Shared>,
}

/// A result of an engine's threads, and its sender.
pub(crate) fn job<T>(shared: &Arc<Shared>, listener: Option<Listener>) -> (JobSender<T>, Job<T>) {
    let job = Job::new(Outcome::Awaited, listener);
    (JobSender { slot: Arc::clone(&job.slot), shared: Arc::clone(shared) }, job)
}

impl<T> JobSender<T> {
    /// Whether nobody waits for the result any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.slot.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn send(self, result: Result<T, Error>) {
        *lock(&self.slot.result) = Outcome::Here(result);
    }
}

impl<T> Drop for JobSender<T> {
    fn drop(&mut self) {
        let mut result = lock(&self.slot.result);
        // A reader may have taken what was sent already: that was the only result.
        if matches!(*result, Outcome::Awaited) {
            *result = Outcome::Here(Err(self.shared.why_lost()));
        }
        drop(result);
        self.slot.done.notify_all();
        if let Some(listener) = &self.slot.listener {
            listener.wake();
        }
    }
}

impl<T> Job<T> {
    fn new(outcome: Outcome<T>, listener: Option<Listener>) -> Self {
        let result = Mutex::new(outcome);
        let slot = Slot { result, done: Condvar::new(), cancelled: AtomicBool::new(false), listener };
        Self { slot: Arc::new(slot) }
    }

    /// A result that is there already.
    pub fn done(value: T) -> Self {
        Self::new(Outcome::Here(Ok(value)), None)
    }

    /// The result, once; `None` while there is none.
    #[must_use]
    pub fn take(&self) -> Option<Result<T, Error>> {
        lock(&self.slot.result).take()
    }

    /// Gives the work up if it has not begun, like dropping the job.
    pub fn cancel(&self) {
        self.slot.cancelled.store(true, Ordering::Release);
    }

    /// Waits for the result. If [`Self::take`] has given it before, there is none: [`Error::ShutDown`].
    ///
    /// # Errors
    /// Those of the work, or why it was not done if the engine ended first.
    pub fn wait(&self) -> Result<T, Error> {
        let mut result = lock(&self.slot.result);
        while matches!(*result, Outcome::Awaited) {
            result = self.slot.done.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
        result.take().unwrap_or(Err(Error::ShutDown))
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::notify::Notify;
    use crate::worker::queue::Queue;

    /// Takes the result as soon as it hears of one.
    struct Eager(Mutex<Vec<Option<Result<u8, Error>>>>, Mutex<Option<Job<u8>>>);

    impl Notify for Eager {
        fn ready(&self, _: u64) {
            let taken = lock(&self.1).as_ref().and_then(Job::take);
            lock(&self.0).push(taken);
        }

        fn flush(&self) {}
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared::new(Queue::new(1, 1)))
    }

    #[test]
    fn a_result_that_is_taken_before_its_sender_is_gone_is_the_only_one() {
        let (sender, job) = job(&shared(), None);
        // What `send` does before it drops the sender.
        *lock(&sender.slot.result) = Outcome::Here(Ok(7));
        assert_eq!(job.take(), Some(Ok(7)));
        drop(sender);
        assert_eq!(job.take(), None);
        assert_eq!(job.wait(), Err(Error::ShutDown));
    }

    #[test]
    fn whoever_listens_is_told_once_and_finds_the_result() {
        let eager = Arc::new(Eager(Mutex::default(), Mutex::default()));
        let listener = Listener { notify: Arc::clone(&eager) as Arc<dyn Notify>, key: 0 };
        let (sender, job) = job(&shared(), Some(listener));
        *lock(&eager.1) = Some(job);
        sender.send(Ok(7));
        assert_eq!(*lock(&eager.0), [Some(Ok(7))]);
    }

    #[test]
    fn a_lost_sender_says_why() {
        let shared = shared();
        let (sender, lost) = job::<()>(&shared, None);
        drop(sender);
        assert_eq!(lost.wait(), Err(Error::ShutDown));
        let (sender, lost) = job::<()>(&shared, None);
        let work = std::thread::spawn(move || {
            let _sender = sender;
            panic!("a fault that the test asked for");
        });
        assert!(work.join().is_err());
        assert_eq!(lost.wait(), Err(Error::Internal));
    }
}
