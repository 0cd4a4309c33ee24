//! Statics that a fork does not spoil.

use std::sync::OnceLock;

use super::process::Owner;

/// A value of which each process has its own, made when it is first asked for: a lock that a thread of the
/// parent held at the fork is never released in the child.
pub struct PerProcess<T> {
    /// The value of the process that asked first, or of its parent that did.
    own: OnceLock<(Owner, T)>,
    /// The values of its children, and of theirs.
    forked: OnceLock<Box<PerProcess<T>>>,
}

impl<T: Default> PerProcess<T> {
    /// An empty value, for a static.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it would not be const")]
    pub const fn new() -> Self {
        Self { own: OnceLock::new(), forked: OnceLock::new() }
    }

    /// This process's value.
    pub fn get(&self) -> &T {
        let (owner, value) = self.own.get_or_init(|| (Owner::current(), T::default()));
        if owner.is_current() {
            return value;
        }
        self.forked.get_or_init(|| Box::new(Self::new())).get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_generation_has_its_own() {
        let values = PerProcess::<Mutex<u8>>::new();
        // The state that a fork finds whose parent has the lock.
        let parent = values.own.get_or_init(|| (Owner::of_another_process(), Mutex::new(1)));
        let held = parent.1.lock().unwrap();
        *values.get().lock().unwrap() = 2;
        assert_eq!((*held, *values.get().lock().unwrap()), (1, 2));
    }
}
