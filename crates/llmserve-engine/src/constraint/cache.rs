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
    bounds: Bounds<T>,
    slots: Mutex<Vec<(ConstraintSpec, Slot<T>)>>,
}

/// How much is kept. The value used last is kept whatever it weighs.
pub(super) struct Bounds<T> {
    pub(super) num_values: usize,
    pub(super) bytes: usize,
    /// What a value weighs in bytes; `None`: it is not worth keeping.
    pub(super) weigh: fn(&T) -> Option<usize>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(bounds: Bounds<T>) -> Self {
        Self { bounds, slots: Mutex::new(Vec::new()) }
    }

    /// The value of a specification; it is made if it is not there.
    pub(super) fn get_or_make(&self, spec: &ConstraintSpec, make: impl FnOnce() -> T) -> T {
        let slot = self.slot(spec);
        let value = slot.get_or_init(make).clone();
        self.trim();
        value
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
        slot
    }

    fn trim(&self) {
        let mut slots = lock(&self.slots);
        let weigh = self.bounds.weigh;
        slots.retain(|(_, slot)| slot.get().is_none_or(|value| weigh(value).is_some()));
        let mut bytes = 0;
        let mut num_kept = 0;
        for (_, slot) in slots.iter().rev() {
            bytes += slot.get().and_then(weigh).unwrap_or(0);
            if num_kept > 0 && (num_kept == self.bounds.num_values || bytes > self.bounds.bytes) {
                break;
            }
            num_kept += 1;
        }
        let surplus = slots.len() - num_kept;
        slots.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ConstraintSpec {
        ConstraintSpec::Regex(text.to_owned())
    }

    fn cache(num_values: usize, bytes: usize) -> Cache<usize> {
        Cache::new(Bounds { num_values, bytes, weigh: |&value| (value != 0).then_some(value) })
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = cache(2, 100);
        assert_eq!(cache.get_or_make(&spec("a"), || 1), 1);
        assert_eq!(cache.get_or_make(&spec("b"), || 2), 2);
        assert_eq!(cache.get_or_make(&spec("a"), || 3), 1);
        assert_eq!(cache.get_or_make(&spec("c"), || 4), 4);
        assert_eq!(cache.get_or_make(&spec("a"), || 5), 1);
        assert_eq!(cache.get_or_make(&spec("b"), || 6), 6);
    }

    #[test]
    fn heavy_ones_make_others_go() {
        let cache = cache(9, 10);
        for (name, weight) in [("a", 4), ("b", 5), ("c", 3)] {
            assert_eq!(cache.get_or_make(&spec(name), || weight), weight);
        }
        assert_eq!(cache.get_or_make(&spec("b"), || 1), 5);
        assert_eq!(cache.get_or_make(&spec("a"), || 1), 1);
        assert_eq!(cache.get_or_make(&spec("d"), || 11), 11);
        assert_eq!(cache.get_or_make(&spec("d"), || 1), 11);
        assert_eq!(cache.get_or_make(&spec("a"), || 2), 2);
    }

    #[test]
    fn what_is_not_worth_keeping_is_made_again() {
        let cache = cache(9, 10);
        assert_eq!(cache.get_or_make(&spec("a"), || 0), 0);
        assert_eq!(cache.get_or_make(&spec("a"), || 3), 3);
    }

    #[test]
    fn a_slow_one_holds_up_no_other() {
        let cache = cache(4, 100);
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
