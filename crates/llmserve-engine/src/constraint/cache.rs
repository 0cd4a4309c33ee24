//! The most recently used compiled specifications.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::lock::lock;
use crate::request::ConstraintSpec;

/// How often waiting callers check whether they are still to wait.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The most recently used values by specification, the least recently used first.
///
/// The lock is held to find a place only, never while something is compiled.
pub(super) struct Cache<T> {
    bounds: Bounds<T>,
    slots: Mutex<Vec<(ConstraintSpec, Arc<Slot<T>>)>>,
}

/// How much is kept. The most recently used value is kept whatever its weight.
pub(super) struct Bounds<T> {
    pub(super) num_values: usize,
    pub(super) bytes: usize,
    /// The weight of a value in bytes; `None`: it is not worth keeping.
    pub(super) weigh: fn(&T) -> Option<usize>,
}

/// A place for a value that is compiled once; the second caller waits for the first.
struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    value: Option<T>,
    num_waiting: usize,
    /// The value was given up before it was there.
    is_over: bool,
}

/// Why there is no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotMade {
    /// The caller has stopped waiting.
    Stopped,
    /// No thread could be started to make the value.
    Failed,
}

/// The duty to make a value. Dropped without one, it is left to whoever asks next.
pub(super) struct Making<T>(Arc<Slot<T>>);

impl<T> Making<T> {
    /// Whether anybody still waits for the value.
    pub(super) fn is_wanted(&self) -> bool {
        lock(&self.0.state).num_waiting > 0
    }

    pub(super) fn finish(self, value: T) {
        lock(&self.0.state).value = Some(value);
    }
}

impl<T> Drop for Making<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_over = state.value.is_none();
        drop(state);
        self.0.changed.notify_all();
    }
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(bounds: Bounds<T>) -> Self {
        Self { bounds, slots: Mutex::new(Vec::new()) }
    }

    /// The value of a specification. If it is not there, `start` has it made on another thread, and returns
    /// whether one could be started. A waiting caller gives up if `is_stopped`, which is asked now and then.
    pub(super) fn get_or_make(
        &self,
        spec: &ConstraintSpec,
        start: impl Fn(Making<T>) -> bool,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<T, NotMade> {
        loop {
            let (slot, is_new) = self.enter(spec);
            if is_new && !start(Making(Arc::clone(&slot))) {
                return Err(NotMade::Failed);
            }
            if let Some(value) = slot.wait(is_stopped) {
                self.trim();
                return Ok(value);
            }
            if is_stopped() {
                return Err(NotMade::Stopped);
            }
        }
    }

    /// The slot of a specification, for a caller that waits for it, and whether it is to be filled.
    fn enter(&self, spec: &ConstraintSpec) -> (Arc<Slot<T>>, bool) {
        let mut slots = lock(&self.slots);
        let found = slots.iter().position(|(held, _)| held == spec);
        let found = found.map(|index| slots.remove(index)).filter(|(_, slot)| slot.enter());
        let is_new = found.is_none();
        let entry = found.unwrap_or_else(|| (spec.clone(), Arc::new(Slot::new())));
        let slot = Arc::clone(&entry.1);
        slots.push(entry);
        (slot, is_new)
    }

    fn trim(&self) {
        let mut slots = lock(&self.slots);
        let weigh = self.bounds.weigh;
        slots.retain(|(_, slot)| lock(&slot.state).value.as_ref().is_none_or(|value| weigh(value).is_some()));
        let mut bytes = 0;
        let mut num_kept = 0;
        for (_, slot) in slots.iter().rev() {
            bytes += lock(&slot.state).value.as_ref().and_then(weigh).unwrap_or(0);
            if num_kept > 0 && (num_kept == self.bounds.num_values || bytes > self.bounds.bytes) {
                break;
            }
            num_kept += 1;
        }
        let surplus = slots.len() - num_kept;
        slots.drain(..surplus);
    }
}

impl<T: Clone> Slot<T> {
    /// A slot that its first user waits for.
    fn new() -> Self {
        let state = State { value: None, num_waiting: 1, is_over: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Counts one more waiting caller; false if no value will come.
    fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        state.num_waiting += usize::from(!state.is_over);
        !state.is_over
    }

    /// Waits for the value; `None`: it was given up, or the caller has stopped.
    fn wait(&self, is_stopped: &dyn Fn() -> bool) -> Option<T> {
        let mut state = lock(&self.state);
        while state.value.is_none() && !state.is_over && !is_stopped() {
            let woken = self.changed.wait_timeout(state, POLL);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.num_waiting -= 1;
        state.value.clone()
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

    fn get(cache: &Cache<usize>, name: &str, make: usize) -> usize {
        let start = |making: Making<usize>| {
            making.finish(make);
            true
        };
        cache.get_or_make(&spec(name), start, &|| false).unwrap()
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = cache(2, 100);
        assert_eq!(get(&cache, "a", 1), 1);
        assert_eq!(get(&cache, "b", 2), 2);
        assert_eq!(get(&cache, "a", 3), 1);
        assert_eq!(get(&cache, "c", 4), 4);
        assert_eq!(get(&cache, "a", 5), 1);
        assert_eq!(get(&cache, "b", 6), 6);
    }

    #[test]
    fn heavy_ones_make_others_go() {
        let cache = cache(9, 10);
        for (name, weight) in [("a", 4), ("b", 5), ("c", 3)] {
            assert_eq!(get(&cache, name, weight), weight);
        }
        assert_eq!(get(&cache, "b", 1), 5);
        assert_eq!(get(&cache, "a", 1), 1);
        assert_eq!(get(&cache, "d", 11), 11);
        assert_eq!(get(&cache, "d", 1), 11);
        assert_eq!(get(&cache, "a", 2), 2);
    }

    #[test]
    fn what_is_not_worth_keeping_is_made_again() {
        let cache = cache(9, 10);
        assert_eq!(get(&cache, "a", 0), 0);
        assert_eq!(get(&cache, "a", 3), 3);
    }

    #[test]
    fn a_slow_one_holds_up_no_other() {
        let cache = cache(4, 100);
        get(&cache, "ready", 1);
        std::thread::scope(|scope| {
            let (started, has_started) = std::sync::mpsc::channel();
            let cache = &cache;
            let slow = scope.spawn(move || {
                let start = |making| started.send(making).is_ok();
                cache.get_or_make(&spec("slow"), start, &|| false)
            });
            let making: Making<usize> = has_started.recv().unwrap();
            assert_eq!(get(cache, "ready", 3), 1);
            assert_eq!(get(cache, "other", 4), 4);
            assert!(making.is_wanted());
            making.finish(2);
            assert_eq!(slow.join().unwrap(), Ok(2));
        });
    }

    #[test]
    fn who_stops_waiting_leaves_it_to_the_next() {
        let cache = cache(4, 100);
        let (started, has_started) = std::sync::mpsc::channel();
        let start = |making| started.send(making).is_ok();
        assert_eq!(cache.get_or_make(&spec("a"), start, &|| true), Err(NotMade::Stopped));
        let making: Making<usize> = has_started.recv().unwrap();
        assert!(!making.is_wanted());
        drop(making);
        assert_eq!(get(&cache, "a", 1), 1);
        assert_eq!(cache.get_or_make(&spec("b"), |_| false, &|| false), Err(NotMade::Failed));
    }
}
