//! The models and loads of this process: who shares one model, and what is to end at exit.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use llmserve_engine::{Embedder, Engine, LoadEvent, LoadHandle, ModelInfo};

use crate::fork::Process;

/// How long the end of the process waits for loads. llama.cpp sees a cancellation with the next
/// tensor, but not while it makes a context.
const LOAD_END: Duration = Duration::from_secs(10);

/// A loaded model of the engine crate.
pub(crate) trait LoadedModel: Clone + Send + Sync + 'static {
    fn num_handles(&self) -> usize;
    fn shutdown(&self);
    fn join(&self);
    fn dead_reason(&self) -> Option<&'static str>;
    /// Clones of one share the description of its model.
    fn info(&self) -> &ModelInfo;
    /// Those of its type that Python holds.
    fn all(registry: &mut Registry) -> &mut Vec<Weak<Shared<Self>>>;
}

macro_rules! loaded_model {
    ($name:ty, $all:ident) => {
        impl LoadedModel for $name {
            fn num_handles(&self) -> usize {
                self.num_handles()
            }

            fn shutdown(&self) {
                self.shutdown();
            }

            fn join(&self) {
                self.join();
            }

            fn dead_reason(&self) -> Option<&'static str> {
                self.dead_reason()
            }

            fn info(&self) -> &ModelInfo {
                self.info()
            }

            fn all(registry: &mut Registry) -> &mut Vec<Weak<Shared<Self>>> {
                &mut registry.$all
            }
        }
    };
}

loaded_model!(Engine, engines);
loaded_model!(Embedder, embedders);

/// A loaded model and how many Python objects hold it: two loads of one file that ran at the same
/// time gave the same one, and closing one of them must leave it to the other.
pub(crate) struct Shared<T> {
    pub(crate) model: T,
    owners: AtomicUsize,
    is_shut_down: AtomicBool,
}

impl<T: LoadedModel> Shared<T> {
    /// Gives up one holder's part; the last one shuts the model down, unless another load that
    /// shared it has not taken its handle yet.
    pub(crate) fn leave(&self) {
        if self.owners.fetch_sub(1, Ordering::AcqRel) == 1 && self.model.num_handles() == 1 {
            self.model.shutdown();
            self.is_shut_down.store(true, Ordering::Release);
        }
    }

    /// Whether the last holder has left; else its threads may go on for long.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }
}

pub(crate) struct Registry {
    /// Whose entries these are: those of a parent process are forgotten in its child.
    process: Option<Process>,
    engines: Vec<Weak<Shared<Engine>>>,
    embedders: Vec<Weak<Shared<Embedder>>>,
    loads: Vec<Weak<LoadHandle>>,
    /// Whether this process ever began a load.
    has_loaded: bool,
    releases: Vec<JoinHandle<()>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    process: None,
    engines: Vec::new(),
    embedders: Vec::new(),
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
        registry.embedders.clear();
        registry.loads.clear();
        registry.has_loaded = false;
        // The threads do not exist here: they must not even be detached.
        mem::forget(mem::take(&mut registry.releases));
    }
    registry
}

/// The shared form of a model that a load gave, with one more owner.
pub(crate) fn adopt<T: LoadedModel>(model: T) -> Arc<Shared<T>> {
    let mut registry = registry();
    let all = T::all(&mut registry);
    all.retain(|known| known.strong_count() > 0);
    let is_same = |known: &Arc<Shared<T>>| std::ptr::eq(known.model.info(), model.info());
    if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(is_same) {
        shared.owners.fetch_add(1, Ordering::AcqRel);
        return shared;
    }
    let owners = AtomicUsize::new(1);
    let shared = Arc::new(Shared { model, owners, is_shut_down: AtomicBool::new(false) });
    all.push(Arc::downgrade(&shared));
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
    engines: Vec<Arc<Shared<Engine>>>,
    embedders: Vec<Arc<Shared<Embedder>>>,
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
        embedders: registry.embedders.iter().filter_map(Weak::upgrade).collect(),
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
        shut_down(&self.engines);
        shut_down(&self.embedders);
        // A load that was cancelled says so at once, while llama.cpp may still work on it.
        if self.has_loaded && !llmserve_engine::join_loads(LOAD_END) {
            log::warn!("the process ends while llama.cpp still loads a model");
        }
        // Drops an engine that came after all and was not fetched.
        for load in &self.loads {
            while let Some(LoadEvent::Progress(_)) = load.recv() {}
        }
        join(&self.engines);
        join(&self.embedders);
        for release in self.releases {
            if release.join().is_err() {
                log::error!("an engine could not be released");
            }
        }
    }
}

fn shut_down<T: LoadedModel>(models: &[Arc<Shared<T>>]) {
    for shared in models {
        shared.model.shutdown();
    }
}

fn join<T: LoadedModel>(models: &[Arc<Shared<T>>]) {
    for shared in models {
        shared.model.join();
    }
}
