//! A result that a prepare thread is computing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::Error;
use crate::lock::lock;
use crate::notify::Listener;

struct Shared<T> {
    result: Mutex<Option<Result<T, Error>>>,
    done: Condvar,
    cancelled: AtomicBool,
    listener: Option<Listener>,
}

/// A result in the making. Dropping it cancels the work if that has not begun.
pub struct Job<T> {
    shared: Arc<Shared<T>>,
}

/// Where the result goes.
pub(crate) struct JobSender<T> {
    shared: Arc<Shared<T>>,
}

pub(crate) fn job<T>(listener: Option<Listener>) -> (JobSender<T>, Job<T>) {
    let shared = Arc::new(Shared {
        result: Mutex::new(None),
        done: Condvar::new(),
        cancelled: AtomicBool::new(false),
        listener,
    });
    let sender = JobSender { shared: Arc::clone(&shared) };
    (sender, Job { shared })
}

impl<T> JobSender<T> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn send(self, result: Result<T, Error>) {
        *lock(&self.shared.result) = Some(result);
    }
}

impl<T> Drop for JobSender<T> {
    /// Also when the sender was lost without a result: nobody waits for ever.
    fn drop(&mut self) {
        let mut result = lock(&self.shared.result);
        result.get_or_insert(Err(Error::ShutDown));
        drop(result);
        self.shared.done.notify_all();
        if let Some(listener) = &self.shared.listener {
            listener.wake();
        }
    }
}

impl<T> Job<T> {
    /// A result that is there already.
    pub fn done(value: T) -> Self {
        let (result, job) = job(None);
        result.send(Ok(value));
        job
    }

    /// The result, once; `None` while there is none.
    #[must_use]
    pub fn take(&self) -> Option<Result<T, Error>> {
        lock(&self.shared.result).take()
    }

    /// Gives the work up if it has not begun, as dropping the job does.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// What the work failed with, or [`Error::ShutDown`] if the engine ended first.
    pub fn wait(&self) -> Result<T, Error> {
        let mut result = lock(&self.shared.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.shared.done.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}
