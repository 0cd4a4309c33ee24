//! Locks a mutex whose value is consistent, whatever happened to its last holder.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. Every critical section of this crate leaves its value consistent, so a poisoned lock is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
