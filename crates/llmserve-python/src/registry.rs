//! The models and loads of this process, which must end at exit.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use llmserve_engine::{LoadEvent, LoadHandle, PerProcess, Service};

/// How long the end of the process waits for loads. llama.cpp sees a cancellation with the next
/// tensor, but not while it makes a context.
const LOAD_END: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Registry {
    models: Vec<Weak<Service>>,
    loads: Vec<Weak<LoadHandle>>,
    /// Whether this process ever began a load.
    has_loaded: bool,
    releases: Vec<JoinHandle<()>>,
}

static REGISTRY: PerProcess<Mutex<Registry>> = PerProcess::new();

/// Held for a few instructions only.
fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a model that was loaded.
pub(crate) fn track_model(model: &Arc<Service>) {
    let models = &mut registry().models;
    models.retain(|known| known.strong_count() > 0);
    models.push(Arc::downgrade(model));
}

/// Remembers a load that begins.
pub(crate) fn track_load(load: &Arc<LoadHandle>) {
    let mut registry = registry();
    registry.loads.retain(|known| known.strong_count() > 0);
    registry.loads.push(Arc::downgrade(load));
    registry.has_loaded = true;
}

/// Drops a value whose drop may wait for an engine's thread, on a thread that does not belong to Python.
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

/// The things that must end before the process does.
pub(crate) struct Everything {
    models: Vec<Arc<Service>>,
    loads: Vec<Arc<LoadHandle>>,
    /// Load threads may be running, even those of loads that nobody waits for any more.
    has_loaded: bool,
    releases: Vec<JoinHandle<()>>,
}

/// Every model and load that is alive or on its way out.
pub(crate) fn everything() -> Everything {
    let mut registry = registry();
    Everything {
        releases: mem::take(&mut registry.releases),
        models: registry.models.iter().filter_map(Weak::upgrade).collect(),
        loads: registry.loads.iter().filter_map(Weak::upgrade).collect(),
        has_loaded: registry.has_loaded,
    }
}

impl Everything {
    /// Cancels the loads, shuts the models down, and waits until their threads have ended; for
    /// those of loads a limited time.
    pub(crate) fn end(self) {
        for load in &self.loads {
            load.cancel();
        }
        for model in &self.models {
            model.shutdown();
        }
        // A load that was cancelled says so at once, while llama.cpp may still work on it.
        if self.has_loaded && !llmserve_engine::join_loads(LOAD_END) {
            log::warn!("the process ends while llama.cpp still loads a model");
        }
        // Drops an engine that arrived after all and was not fetched.
        for load in &self.loads {
            while let Some(LoadEvent::Progress(_)) = load.recv() {}
        }
        for model in &self.models {
            model.join();
        }
        for release in self.releases {
            if release.join().is_err() {
                log::error!("an engine could not be released");
            }
        }
    }
}
