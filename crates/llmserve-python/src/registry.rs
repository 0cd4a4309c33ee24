//! The engines and loads of this process: who shares one engine, and what is to end at exit.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use llmserve_engine::{Engine, LoadEvent, LoadHandle};

use crate::fork::Process;

/// How long the end of the process waits for loads. llama.cpp sees a cancellation with the next
/// tensor, but not while it makes a context.
const LOAD_END: Duration = Duration::from_secs(10);

/// An engine and how many Python engines hold it: two loads of one file that ran at the same
/// time gave the same one, and closing one of them must leave it to the other.
pub(crate) struct SharedEngine {
    pub(crate) engine: Engine,
    owners: AtomicUsize,
    is_shut_down: AtomicBool,
}

impl SharedEngine {
    /// Gives up one holder's part; the last one shuts the engine down, unless another load that
    /// shared it has not taken its handle yet.
    pub(crate) fn leave(&self) {
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 && self.engine.num_handles() == 1 {
            self.engine.shutdown();
            self.is_shut_down.store(true, Ordering::Release);
        }
    }

    /// Whether the last holder has left; else its threads may go on for long.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }
}

struct Registry {
    /// Whose entries these are: those of a parent process are forgotten in its child.
    process: Option<Process>,
    engines: Vec<Weak<SharedEngine>>,
    loads: Vec<Weak<LoadHandle>>,
    /// Whether this process ever began a load.
    has_loaded: bool,
    releases: Vec<JoinHandle<()>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    process: None,
    engines: Vec::new(),
    loads: Vec::new(),
    has_loaded: false,
    releases: Vec::new(),
});

/// Held for a few instructions only, and always with the GIL, so that no fork finds it locked.
fn registry() -> MutexGuard<'static, Registry> {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if !registry.process.is_some_and(Process::is_current) {
        registry.process = Some(Process::current());
        // Weak references: dropping them touches no lock of the parent's.
        registry.engines.clear();
        registry.loads.clear();
        registry.has_loaded = false;
        // The threads do not exist here: they must not even be detached.
        mem::forget(mem::take(&mut registry.releases));
    }
    registry
}

/// The shared form of an engine that a load gave, with one more owner.
pub(crate) fn adopt(engine: Engine) -> Arc<SharedEngine> {
    let mut registry = registry();
    registry.engines.retain(|known| known.strong_count() > 0);
    let known = registry.engines.iter().filter_map(Weak::upgrade).find(|known| {
        // Clones of one engine share the description of its model.
        std::ptr::eq(known.engine.info(), engine.info())
    });
    if let Some(shared) = known {
        shared.owners.fetch_add(1, Ordering::AcqRel);
        return shared;
    }
    let owners = AtomicUsize::new(1);
    let shared = Arc::new(SharedEngine { engine, owners, is_shut_down: AtomicBool::new(false) });
    registry.engines.push(Arc::downgrade(&shared));
    shared
}

/// Remembers a load that begins.
pub(crate) fn track_load(load: &Arc<LoadHandle>) {
    let mut registry = registry();
    registry.loads.retain(|known| known.strong_count() > 0);
    registry.loads.push(Arc::downgrade(load));
    registry.has_loaded = true;
}

/// Drops a value whose drop may wait for an engine's thread, on a thread that is none of Python's.
pub(crate) fn release(value: impl Send + 'static) {
    let thread = Builder::new().name("llmserve-release".to_owned()).spawn(move || drop(value));
    match thread {
        Ok(release) => {
            let mut registry = registry();
            registry.releases.retain(|other| !other.is_finished());
            registry.releases.push(release);
        }
        // The closure is gone, and with it the value: it was dropped here.
        Err(error) => log::warn!("no thread to release an engine: {error}"),
    }
}

/// What is to end before the process does.
pub(crate) struct Everything {
    engines: Vec<Arc<SharedEngine>>,
    loads: Vec<Arc<LoadHandle>>,
    /// Load threads may be running, also those of loads that nobody holds any more.
    has_loaded: bool,
    releases: Vec<JoinHandle<()>>,
}

/// Every engine and load that is alive or on its way out.
pub(crate) fn everything() -> Everything {
    let mut registry = registry();
    Everything {
        releases: mem::take(&mut registry.releases),
        engines: registry.engines.iter().filter_map(Weak::upgrade).collect(),
        loads: registry.loads.iter().filter_map(Weak::upgrade).collect(),
        has_loaded: registry.has_loaded,
    }
}

impl Everything {
    /// Cancels the loads, shuts the engines down, and waits until their threads have ended; for
    /// those of loads a limited time.
    pub(crate) fn end(self) {
        for load in &self.loads {
            load.cancel();
        }
        for shared in &self.engines {
            shared.engine.shutdown();
        }
        // A load that was cancelled says so at once, while llama.cpp may still work on it.
        if self.has_loaded && !llmserve_engine::join_loads(LOAD_END) {
            log::warn!("the process ends while llama.cpp still loads a model");
        }
        // Drops an engine that came after all and was not fetched.
        for load in &self.loads {
            while let Some(LoadEvent::Progress(_)) = load.recv() {}
        }
        for shared in &self.engines {
            shared.engine.join();
        }
        for release in self.releases {
            if release.join().is_err() {
                log::error!("an engine could not be released");
            }
        }
    }
}
