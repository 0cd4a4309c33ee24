//! The end of the interpreter. A thread that comes back from native code while the interpreter
//! ends is killed by it, with its stack half unwound; so from then on none comes back.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use pyo3::prelude::*;

use crate::registry;

static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// Ends every engine and load of this process, their threads included, and lets no other thread return from a wait into
/// Python. For `atexit`, on the thread that ends the interpreter.
#[pyfunction]
pub(crate) fn begin_exit(py: Python<'_>) {
    EXITING.get_or_init(|| thread::current().id());
    let everything = registry::everything();
    py.detach(|| everything.end());
}

/// Whether [`begin_exit`] was called.
pub(crate) fn is_exiting() -> bool {
    EXITING.get().is_some()
}

/// Keeps what the end of the interpreter does to a request from the threads that wait for it: they
/// never see it. Called after something was taken.
pub(crate) fn hold_caller_at_exit(py: Python<'_>) {
    if is_exiting() {
        py.detach(hold_thread_at_exit);
    }
}

/// Works without the GIL. Whatever waits in native code goes through here, or the end of the interpreter
/// would find it.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let result = work();
        hold_thread_at_exit();
        result
    })
}

/// Holds any thread but the one that ends the interpreter. Called without the GIL, at the end of
/// every wait.
fn hold_thread_at_exit() {
    if EXITING.get().is_some_and(|main| *main != thread::current().id()) {
        loop {
            thread::park();
        }
    }
}
