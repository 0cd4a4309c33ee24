//! The bound on waiting requests: places are taken before a request is accepted and given back when it
//! leaves the queue, in whatever way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::Error;
use crate::tenant::{Tenant, TenantId};

use super::lock::lock;

/// Counts waiting requests and their prompt tokens.
///
/// A full queue still takes what leaves its tenant within an equal share, so nobody fills it for the others. All
/// shares together are at most `1 + 1/2 + 1/3 + …` times the limit, and at least a request for each tenant.
pub(crate) struct Queue {
    max_requests: usize,
    max_tokens: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    all: Count,
    /// Those of each tenant that has any.
    by_tenant: HashMap<TenantId, Count>,
    /// Running estimate of the seconds between two requests that leave the queue.
    seconds_per_request: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    requests: usize,
    tokens: usize,
}

/// A place in the queue, given back when dropped.
pub(crate) struct Place {
    queue: Arc<Queue>,
    tenant: Tenant,
    tokens: usize,
}

impl Queue {
    pub(crate) fn new(max_requests: usize, max_tokens: usize) -> Self {
        Self { max_requests, max_tokens, waiting: Mutex::default() }
    }

    /// The refusal of work for which there is no place.
    pub(crate) fn full(&self) -> Error {
        self.lock().full(self.max_requests, "requests")
    }

    /// Takes a place for a request whose length is not known yet.
    pub(crate) fn enter(self: &Arc<Self>, tenant: Tenant) -> Result<Place, Error> {
        let mut waiting = self.lock();
        let own = waiting.own(&tenant).requests;
        if waiting.all.requests >= self.max_requests && own >= waiting.share(self.max_requests, own) {
            return Err(waiting.full(self.max_requests, "requests"));
        }
        waiting.all.requests += 1;
        waiting.by_tenant.entry(tenant.id.clone()).or_default().requests += 1;
        Ok(Place { queue: Arc::clone(self), tenant, tokens: 0 })
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
    fn own(&self, tenant: &Tenant) -> Count {
        self.by_tenant.get(&tenant.id).copied().unwrap_or_default()
    }

    /// The equal share of a tenant with `own_requests` in the queue.
    fn share(&self, limit: usize, own_requests: usize) -> usize {
        let num_tenants = self.by_tenant.len() + usize::from(own_requests == 0);
        (limit / num_tenants).max(1)
    }

    fn full(&self, limit: usize, unit: &'static str) -> Error {
        Error::QueueFull { limit, unit, retry_after: self.retry_after() }
    }

    /// About as long as half of the queue takes, between one second and one minute.
    fn retry_after(&self) -> Duration {
        let seconds = self.seconds_per_request * self.all.requests as f64 / 2.0;
        Duration::from_secs_f64(seconds.clamp(1.0, 60.0).ceil())
    }
}

impl Place {
    /// Whose it is.
    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Adds the prompt's tokens. A request whose tenant has no others may exceed the limit.
    pub(crate) fn add_tokens(&mut self, tokens: usize) -> Result<(), Error> {
        let limit = self.queue.max_tokens;
        let mut waiting = self.queue.lock();
        let own = waiting.own(&self.tenant);
        let is_beyond_share = own.tokens > 0 && own.tokens + tokens > waiting.share(limit, own.requests);
        if is_beyond_share && waiting.all.tokens + tokens > limit {
            return Err(waiting.full(limit, "tokens"));
        }
        waiting.all.tokens += tokens;
        waiting.by_tenant.entry(self.tenant.id.clone()).or_default().tokens += tokens;
        self.tokens += tokens;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.all.requests -= 1;
        waiting.all.tokens -= self.tokens;
        if let Some(own) = waiting.by_tenant.get_mut(&self.tenant.id) {
            own.requests -= 1;
            own.tokens -= self.tokens;
            if own.requests == 0 {
                waiting.by_tenant.remove(&self.tenant.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(queue: &Arc<Queue>, tenant: &str) -> Result<Place, Error> {
        queue.enter(Tenant::new(tenant))
    }

    /// As many places as a tenant gets.
    fn fill(queue: &Arc<Queue>, tenant: &str) -> Vec<Place> {
        std::iter::from_fn(|| enter(queue, tenant).ok()).collect()
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let queue = Arc::new(Queue::new(2, 10));
        let mut first = enter(&queue, "").unwrap();
        let mut second = enter(&queue, "").unwrap();
        assert!(matches!(enter(&queue, ""), Err(Error::QueueFull { limit: 2, unit: "requests", .. })));
        first.add_tokens(30).unwrap();
        assert!(matches!(second.add_tokens(1), Err(Error::QueueFull { limit: 10, unit: "tokens", .. })));
        drop(first);
        second.add_tokens(10).unwrap();
        assert!(enter(&queue, "").is_ok());
    }

    #[test]
    fn a_full_queue_takes_an_equal_share_of_each_newcomer() {
        let queue = Arc::new(Queue::new(12, 100));
        let flood = fill(&queue, "flood");
        assert_eq!(flood.len(), 12);
        let second = fill(&queue, "second");
        let third = fill(&queue, "third");
        assert_eq!((second.len(), third.len()), (6, 4));
        // Who has more than a share gets no place until the queue is no longer full.
        drop((second, third));
        assert!(enter(&queue, "flood").is_err());
        drop(flood);
        assert_eq!(fill(&queue, "flood").len(), 12);
    }

    #[test]
    fn prompts_of_newcomers_find_room_beside_long_ones() {
        let queue = Arc::new(Queue::new(12, 100));
        let mut flood = enter(&queue, "flood").unwrap();
        flood.add_tokens(100).unwrap();
        let mut newcomer = enter(&queue, "newcomer").unwrap();
        newcomer.add_tokens(30).unwrap();
        let mut second = enter(&queue, "newcomer").unwrap();
        second.add_tokens(20).unwrap();
        assert!(matches!(
            enter(&queue, "newcomer").unwrap().add_tokens(1),
            Err(Error::QueueFull { unit: "tokens", .. })
        ));
        assert!(matches!(
            enter(&queue, "flood").unwrap().add_tokens(1),
            Err(Error::QueueFull { unit: "tokens", .. })
        ));
    }

    #[test]
    fn more_tenants_than_places_have_one_each() {
        let queue = Arc::new(Queue::new(2, 100));
        let flood = fill(&queue, "flood");
        let others: Vec<_> = (0..5).map(|index| fill(&queue, &index.to_string())).collect();
        assert_eq!(flood.len(), 2);
        assert!(others.iter().all(|own| own.len() == 1));
    }
}
