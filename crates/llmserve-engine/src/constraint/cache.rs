//! The compiled specifications that were used last.

use std::sync::{Arc, Mutex, OnceLock};

use crate::lock::lock;
use crate::request::ConstraintSpec;

/// A place for what is compiled once; who comes second waits for the first.
type Slot<T> = Arc<OnceLock<T>>;

/// The last used values by specification, the least recently used in front.
///
/// The lock is held to find a place only, never while something is compiled.
pub(super) struct Cache<T> {
    capacity: usize,
    slots: Mutex<Vec<(ConstraintSpec, Slot<T>)>>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, slots: Mutex::new(Vec::new()) }
    }

    /// The value of a specification; it is made if it is not there.
    pub(super) fn get_or_make(&self, spec: &ConstraintSpec, make: impl FnOnce() -> T) -> T {
        self.slot(spec).get_or_init(make).clone()
    }

    fn slot(&self, spec: &ConstraintSpec) -> Slot<T> {
        let mut slots = lock(&self.slots);
        let found = slots.iter().position(|(held, _)| held == spec);
        let entry = match found {
            Some(index) => slots.remove(index),
            None => (spec.clone(), Slot::default()),
        };
        let slot = Arc::clone(&entry.1);
        slots.push(entry);
        let surplus = slots.len().saturating_sub(self.capacity);
        slots.drain(..surplus);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ConstraintSpec {
        ConstraintSpec::Regex(text.to_owned())
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = Cache::new(2);
        assert_eq!(cache.get_or_make(&spec("a"), || 1), 1);
        assert_eq!(cache.get_or_make(&spec("b"), || 2), 2);
        assert_eq!(cache.get_or_make(&spec("a"), || 3), 1);
        assert_eq!(cache.get_or_make(&spec("c"), || 4), 4);
        assert_eq!(cache.get_or_make(&spec("a"), || 5), 1);
        assert_eq!(cache.get_or_make(&spec("b"), || 6), 6);
    }

    #[test]
    fn a_slow_one_holds_up_no_other() {
        let cache = Cache::new(4);
        cache.get_or_make(&spec("ready"), || 1);
        std::thread::scope(|scope| {
            let (started, has_started) = std::sync::mpsc::channel();
            let (release, released) = std::sync::mpsc::channel::<()>();
            let cache = &cache;
            let slow = scope.spawn(move || {
                cache.get_or_make(&spec("slow"), || {
                    started.send(()).unwrap();
                    released.recv().unwrap();
                    2
                })
            });
            has_started.recv().unwrap();
            assert_eq!(cache.get_or_make(&spec("ready"), || 3), 1);
            assert_eq!(cache.get_or_make(&spec("other"), || 4), 4);
            release.send(()).unwrap();
            assert_eq!(slow.join().unwrap(), 2);
        });
    }
}
