//! How often a receiver is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use llmserve_engine::*;

use super::{assert_expected, settled};
use crate::common::{FakeEngine, collect, request};

/// Counts notifications and wake-ups.
#[derive(Default)]
struct Counter {
    ready: AtomicUsize,
    flushes: AtomicUsize,
}

impl Notify for Counter {
    fn ready(&self, _key: u64) {
        self.ready.fetch_add(1, Ordering::SeqCst);
    }
    fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_step_wakes_its_receiver_once() {
    let engine = FakeEngine::default().start();
    let counter = Arc::new(Counter::default());
    let listener = |key| Some(Listener { notify: Arc::clone(&counter) as Arc<dyn Notify>, key });
    let stopping = StopParams { max_tokens: Some(200), ignore_eos: true, ..StopParams::default() };
    let parts = RequestParts { stopping, ..RequestParts::text("wake", 200) };
    let handles: Vec<_> = (0..8).map(|key| engine.submit(request(parts.clone()), listener(key))).collect();
    for handle in &handles {
        assert_eq!(collect(handle).unwrap().tokens.len(), 200);
    }
    let stats = settled(&engine);
    engine.shutdown();
    engine.join();
    let (ready, flushes) = (counter.ready.load(Ordering::SeqCst), counter.flushes.load(Ordering::SeqCst));
    assert!(ready >= 8 * 200, "{ready}");
    // One a step and one for each acceptance.
    assert!(flushes <= stats.steps as usize + 2 * 8, "{flushes} wake-ups in {} steps", stats.steps);
}

#[test]
fn delivery_at_the_end_wakes_for_acceptance_and_end_only() {
    let engine = FakeEngine::default().start();
    let counter = Arc::new(Counter::default());
    let listener = Listener { notify: Arc::clone(&counter) as Arc<dyn Notify>, key: 1 };
    let parts = RequestParts { delivery: Delivery::AtEnd, ..RequestParts::text("quiet", 30) };
    let handle = engine.submit(request(parts), Some(listener));
    let output = collect(&handle).unwrap();
    assert_expected(&output, "quiet", 30);
    // The engine thread tells after it has put the event in.
    engine.shutdown();
    engine.join();
    assert_eq!(counter.ready.load(Ordering::SeqCst), 2);
}
