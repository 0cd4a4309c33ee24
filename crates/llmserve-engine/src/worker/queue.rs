//! The bound on waiting requests: places are taken before a request is accepted and given back when it
//! leaves the queue, in whatever way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::Error;

use super::lock::lock;

/// Counts waiting requests and their prompt tokens.
pub(crate) struct Queue {
    max_requests: usize,
    max_tokens: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: usize,
    tokens: usize,
    /// Running estimate of the seconds between two requests that leave the queue.
    seconds_per_request: f64,
}

/// A place in the queue, given back when dropped.
pub(crate) struct Place {
    queue: Arc<Queue>,
    tokens: usize,
}

impl Queue {
    pub(crate) fn new(max_requests: usize, max_tokens: usize) -> Self {
        Self { max_requests, max_tokens, waiting: Mutex::default() }
    }

    /// The refusal of work for which there is no place.
    pub(crate) fn full(&self) -> Error {
        let retry_after = self.lock().retry_after();
        Error::QueueFull { limit: self.max_requests, unit: "requests", retry_after }
    }

    /// Takes a place for a request whose length is not known yet.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Place, Error> {
        let mut waiting = self.lock();
        if waiting.requests >= self.max_requests {
            return Err(Error::QueueFull {
                limit: self.max_requests,
                unit: "requests",
                retry_after: waiting.retry_after(),
            });
        }
        waiting.requests += 1;
        Ok(Place { queue: Arc::clone(self), tokens: 0 })
    }

    /// Records how long a retired request was running, for the retry hint.
    pub(crate) fn note_service(&self, seconds: f64, num_slots: usize) {
        const WEIGHT: f64 = 0.2;
        let mut waiting = self.lock();
        let rate = seconds / num_slots.max(1) as f64;
        waiting.seconds_per_request += WEIGHT * (rate - waiting.seconds_per_request);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

impl Waiting {
    /// About as long as half of the queue takes, between one second and one minute.
    fn retry_after(&self) -> Duration {
        let seconds = self.seconds_per_request * self.requests as f64 / 2.0;
        Duration::from_secs_f64(seconds.clamp(1.0, 60.0).ceil())
    }
}

impl Place {
    /// Adds the prompt's tokens. A request that is alone may exceed the limit.
    pub(crate) fn add_tokens(&mut self, tokens: usize) -> Result<(), Error> {
        let mut waiting = self.queue.lock();
        if waiting.tokens > 0 && waiting.tokens + tokens > self.queue.max_tokens {
            return Err(Error::QueueFull {
                limit: self.queue.max_tokens,
                unit: "tokens",
                retry_after: waiting.retry_after(),
            });
        }
        waiting.tokens += tokens;
        self.tokens += tokens;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.requests -= 1;
        waiting.tokens -= self.tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let queue = Arc::new(Queue::new(2, 10));
        let mut first = queue.enter().unwrap();
        let mut second = queue.enter().unwrap();
        assert!(matches!(queue.enter(), Err(Error::QueueFull { limit: 2, unit: "requests", .. })));
        first.add_tokens(30).unwrap();
        assert!(matches!(second.add_tokens(1), Err(Error::QueueFull { limit: 10, unit: "tokens", .. })));
        drop(first);
        second.add_tokens(10).unwrap();
        assert!(queue.enter().is_ok());
    }
}
