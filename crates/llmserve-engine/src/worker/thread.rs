//! The thread that owns a context: it makes it, works with it, and in the end, whatever happens, tells everybody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};

use crate::error::{Error, LoadError, LoadErrorReason};

use super::shared::{Running, Shared};

const PANICKED: &str = "its thread crashed";

/// What a thread does with its context.
pub(crate) trait Work {
    /// Works until it is told to end.
    fn run(&mut self);
}

/// Starts the thread and waits until its context is made; returns the result of `make`.
pub(crate) fn start<W: Work, L: Send + 'static>(
    name: &'static str,
    shared: &Arc<Shared>,
    make: impl FnOnce() -> Result<(W, L), LoadError> + Send + 'static,
) -> Result<L, LoadError> {
    let (opened, is_open) = bounded(1);
    let running = Running::new(shared, true);
    let shared = Arc::clone(shared);
    let builder = std::thread::Builder::new().name(name.to_owned());
    let thread = builder.spawn(move || {
        // Dropped last.
        let _running = running;
        own(name, &shared, make, &opened);
    });
    thread.map_err(no_thread)?;
    let ended =
        || LoadError::new(LoadErrorReason::Other, format!("{name} crashed while it made the context"));
    is_open.recv().unwrap_or_else(|_| Err(ended()))
}

fn own<W: Work, L>(
    name: &str,
    shared: &Shared,
    make: impl FnOnce() -> Result<(W, L), LoadError>,
    opened: &Sender<Result<L, LoadError>>,
) {
    let work = || {
        let mut worker = match make() {
            Ok((worker, limits)) => {
                if opened.send(Ok(limits)).is_err() {
                    return;
                }
                worker
            }
            Err(error) => return drop(opened.send(Err(error))),
        };
        if catch_unwind(AssertUnwindSafe(|| worker.run())).is_err() {
            // Before the worker is dropped: whatever its requests leave to others finds it dead.
            shared.set_dead(PANICKED);
        }
    };
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        shared.set_dead(PANICKED);
    }
    let reason = shared.dead_reason().map_or(Error::ShutDown, |reason| Error::EngineDead { reason });
    let num_failed = shared.fail_all(&reason);
    if shared.dead_reason().is_some() {
        log::error!("{name} has ended, and {num_failed} requests with it: {reason}");
    } else if num_failed > 0 {
        log::warn!("{num_failed} requests ended with {name}: {reason}");
    }
}

/// The failure of a load for which no thread could be started.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn no_thread(error: std::io::Error) -> LoadError {
    LoadError::new(LoadErrorReason::Other, "a thread could not be started").with_detail(error.to_string())
}
