//! Loading a model off-thread, with progress, shared by everybody who wants the same one.

mod embedder;
mod embedding_shape;
mod failure;
mod open;
mod probed;
mod sizing;
mod table;

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::config::{MetadataValue, ModelConfig};
use crate::embed::Embedder;
use crate::engine::Engine;
use crate::error::{LoadError, LoadErrorReason};
use crate::gguf::{self, ModelKind};
use crate::lock::lock;
use crate::notify::Listener;

pub use probed::probe_model;

use table::Loading;
pub use table::join_loads;

/// The progress and the end of a load.
#[derive(Clone)]
pub enum LoadEvent {
    /// A share from 0 to 1 that never falls.
    Progress(f32),
    /// The end: the model can generate.
    Ready(Engine),
    /// The end: the model, which is one for embeddings, can be used.
    ReadyEmbedder(Embedder),
    /// The end: nothing of it stays in memory.
    Failed(LoadError),
}

/// Options that do not affect what is loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// A command that calls [`crate::probe`] with the path and the options that are appended to it. A
    /// file that has not been loaded with these options before is opened there first, since llama.cpp
    /// ends the process on many contradictions. `None`: no probe.
    pub probe_command: Option<Vec<OsString>>,
    /// What the model is needed for.
    pub wanted: Wanted,
}

/// What a model is needed for. A file of another kind is refused by its header, before anything is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Any kind of model.
    #[default]
    Any,
    /// The model is to generate text.
    Generation,
    /// The model is to give embeddings.
    Embedding,
}

impl Wanted {
    fn check(self, kind: ModelKind) -> Result<(), LoadError> {
        let message = match (self, kind) {
            (Self::Any, _)
            | (Self::Generation, ModelKind::Generation)
            | (Self::Embedding, ModelKind::Embedding(_)) => return Ok(()),
            (Self::Generation, ModelKind::Embedding(_)) => {
                "the model gives embeddings and does not generate text: load it as an `Embedder`"
            }
            (Self::Embedding, ModelKind::Generation) => {
                "the model generates text and does not give embeddings: load it as an `Engine`"
            }
        };
        Err(LoadError::new(LoadErrorReason::WrongKind, message))
    }
}

/// What the model in a file is for, by its header and the overrides with which it would be loaded.
///
/// # Errors
/// The file is wrong, or its model is of a kind that is not served at all.
pub fn model_kind(path: &Path, overrides: &[(String, MetadataValue)]) -> Result<ModelKind, LoadError> {
    gguf::check(path)?.with_overrides(overrides)?.kind()
}

/// Bytes of KV cache that each token of a sequence takes at most, by the file's header and the options with
/// which it would be loaded: `None` if the cache does not grow by the token, or there is none.
///
/// # Errors
/// The file is wrong, or its model is of a kind that is not served at all.
pub fn kv_bytes_per_token(path: &Path, config: &ModelConfig) -> Result<Option<u64>, LoadError> {
    let file = gguf::check(path)?.with_overrides(&config.weights.metadata_overrides)?;
    Ok(match file.kind()? {
        ModelKind::Embedding(kind) if !kind.has_cache => None,
        ModelKind::Embedding(_) | ModelKind::Generation => {
            gguf::bytes_per_token(&file, config.context.kv_type_k, config.context.kv_type_v)
        }
    })
}

/// Starts loading a model, or joins a load of the same file with the same options. Never blocks.
#[must_use]
pub fn load(
    path: &Path,
    config: ModelConfig,
    options: LoadOptions,
    listener: Option<Listener>,
) -> LoadHandle {
    let subscriber = Arc::new(Subscriber::new(listener));
    subscriber.put(LoadEvent::Progress(0.0));
    let loading = table::join_or_start(path, config, options, &subscriber);
    LoadHandle { subscriber, loading }
}

/// A caller's share in a load. Dropping it leaves the load; the last one to leave cancels it.
pub struct LoadHandle {
    subscriber: Arc<Subscriber>,
    loading: Arc<Loading>,
}

impl LoadHandle {
    /// Takes the events that are there, without waiting; of several progress values only the newest.
    #[must_use]
    pub fn take(&self) -> Vec<LoadEvent> {
        let mut state = self.subscriber.lock();
        let progress = state.progress.take().map(LoadEvent::Progress);
        progress.into_iter().chain(state.end.take()).collect()
    }

    /// Waits for the next event; `None` after the terminal one.
    #[must_use]
    pub fn recv(&self) -> Option<LoadEvent> {
        let mut state = self.subscriber.lock();
        loop {
            if let Some(progress) = state.progress.take() {
                return Some(LoadEvent::Progress(progress));
            }
            if let Some(end) = state.end.take() {
                return Some(end);
            }
            if state.is_over {
                return None;
            }
            state = self.subscriber.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves the load: it ends here as cancelled, and altogether if nobody else waits for it.
    pub fn cancel(&self) {
        if self.loading.leave(&self.subscriber) {
            let error = LoadError::new(LoadErrorReason::Cancelled, "the load was cancelled");
            self.subscriber.put(LoadEvent::Failed(error));
        }
    }
}

impl Drop for LoadHandle {
    fn drop(&mut self) {
        self.loading.leave(&self.subscriber);
    }
}

/// A caller that waits for a load.
pub(crate) struct Subscriber {
    listener: Option<Listener>,
    state: Mutex<SubscriberState>,
    changed: Condvar,
}

#[derive(Default)]
struct SubscriberState {
    /// The newest value that has not been taken.
    progress: Option<f32>,
    /// The highest value so far. Whoever joins a load is told of it beside the load's own thread.
    reached: f32,
    end: Option<LoadEvent>,
    is_over: bool,
}

impl Subscriber {
    fn new(listener: Option<Listener>) -> Self {
        Self { listener, state: Mutex::default(), changed: Condvar::new() }
    }

    fn put(&self, event: LoadEvent) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        match event {
            LoadEvent::Progress(progress) if progress < state.reached => return,
            LoadEvent::Progress(progress) => {
                state.reached = progress;
                state.progress = Some(progress);
            }
            end @ (LoadEvent::Ready(_) | LoadEvent::ReadyEmbedder(_) | LoadEvent::Failed(_)) => {
                state.end = Some(end);
                state.is_over = true;
            }
        }
        drop(state);
        self.changed.notify_all();
        if let Some(listener) = &self.listener {
            listener.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SubscriberState> {
        // Every change of the state is complete before the lock is released.
        lock(&self.state)
    }
}
