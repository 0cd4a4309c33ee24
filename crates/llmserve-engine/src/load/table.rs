//! The loads in progress, so that callers of one model share one load.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::config::ModelConfig;
use crate::error::{LoadError, LoadErrorReason};
use crate::lock::lock;
use crate::process::Owner;
use crate::worker::PerProcess;

use super::open::{Loaded, open};
use super::{LoadEvent, LoadOptions, Subscriber, Wanted};

static LOADS: PerProcess<Mutex<Vec<Arc<Loading>>>> = PerProcess::new();

/// One load and its waiting callers.
pub(super) struct Loading {
    path: PathBuf,
    config: ModelConfig,
    wanted: Wanted,
    /// A forked child must not touch the locks: the loading thread does not exist there.
    owner: Owner,
    is_cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    subscribers: Vec<Arc<Subscriber>>,
    progress: f32,
}

/// The file in its real folder, under its own name: the other parts of a split model lie beside
/// it, even if all of them are links to files of other names.
fn in_real_folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (folder.unwrap_or(Path::new(".")).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

/// Joins a load of the same file and options, or starts one on a thread of its own.
pub(super) fn join_or_start(
    path: &Path,
    config: ModelConfig,
    options: LoadOptions,
    subscriber: &Arc<Subscriber>,
) -> Arc<Loading> {
    let path = in_real_folder(path);
    let mut loads = lock(LOADS.get());
    if let Some(loading) = loads.iter().find(|loading| loading.is_of(&path, &config, options.wanted)) {
        let loading = Arc::clone(loading);
        let progress = loading.join(subscriber);
        drop(loads);
        subscriber.put(LoadEvent::Progress(progress));
        return loading;
    }
    let loading = Arc::new(Loading {
        path,
        config,
        wanted: options.wanted,
        owner: Owner::current(),
        is_cancelled: AtomicBool::new(false),
        waiting: Mutex::new(Waiting { subscribers: vec![Arc::clone(subscriber)], progress: 0.0 }),
    });
    loads.push(Arc::clone(&loading));
    drop(loads);
    let own = Arc::clone(&loading);
    let thread = std::thread::Builder::new().name("llmserve-load".to_owned());
    let running = RunningLoad::new();
    let work = move || {
        own.run(&options);
        drop(own);
        drop(running);
    };
    if let Err(error) = thread.spawn(work) {
        let failed = LoadError::new(LoadErrorReason::Other, "a thread could not be started");
        loading.end(LoadEvent::Failed(failed.with_detail(error.to_string())));
    }
    loading
}

impl Loading {
    fn is_of(&self, path: &Path, config: &ModelConfig, wanted: Wanted) -> bool {
        let is_same = || self.path == path && self.config == *config && self.wanted == wanted;
        is_same() && !self.is_cancelled()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Takes a subscriber in; how far the load is.
    fn join(&self, subscriber: &Arc<Subscriber>) -> f32 {
        let mut waiting = lock(&self.waiting);
        waiting.subscribers.push(Arc::clone(subscriber));
        waiting.progress
    }

    /// Removes a subscriber; the last one to leave cancels the load. False if it had left already.
    pub(super) fn leave(&self, subscriber: &Arc<Subscriber>) -> bool {
        if !self.owner.is_current() {
            return false;
        }
        // Under the lock of the table, so that nobody joins a load that is being cancelled.
        let _loads = lock(LOADS.get());
        let mut waiting = lock(&self.waiting);
        let before = waiting.subscribers.len();
        waiting.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber));
        let has_left = waiting.subscribers.len() < before;
        if has_left && waiting.subscribers.is_empty() {
            self.is_cancelled.store(true, Ordering::Release);
        }
        has_left
    }

    fn run(&self, options: &LoadOptions) {
        let work = std::panic::AssertUnwindSafe(|| open(&self.path, &self.config, options, self));
        let end = match std::panic::catch_unwind(work) {
            Ok(Ok(Loaded::Engine(engine))) => LoadEvent::Ready(engine),
            Ok(Ok(Loaded::Embedder(embedder))) => LoadEvent::ReadyEmbedder(embedder),
            Ok(Err(error)) => LoadEvent::Failed(error),
            Err(_) => LoadEvent::Failed(LoadError::new(
                LoadErrorReason::Other,
                "the load failed because of a fault",
            )),
        };
        if let LoadEvent::Failed(error) = &end {
            log::warn!("loading {} failed: {error}\n{}", self.path.display(), error.detail);
        }
        self.end(end);
    }

    /// Tells everybody, unless it would fall back.
    pub(super) fn report(&self, progress: f32) {
        let progress = progress.min(1.0);
        let mut waiting = lock(&self.waiting);
        if progress <= waiting.progress {
            return;
        }
        waiting.progress = progress;
        // Not under the lock: a listener may leave the load.
        let subscribers = waiting.subscribers.clone();
        drop(waiting);
        for subscriber in subscribers {
            subscriber.put(LoadEvent::Progress(progress));
        }
    }

    fn end(&self, end: LoadEvent) {
        let mut loads = lock(LOADS.get());
        loads.retain(|other| !std::ptr::eq(Arc::as_ptr(other), self));
        let mut subscribers = std::mem::take(&mut lock(&self.waiting).subscribers);
        drop(loads);
        let last = subscribers.pop();
        for subscriber in subscribers {
            subscriber.put(end.clone());
        }
        // Moved: once everybody has an engine, no handle of it is left here.
        if let Some(subscriber) = last {
            subscriber.put(end);
        }
    }
}

/// Load threads that have not ended, and those who wait for them.
static RUNNING: PerProcess<(Mutex<usize>, Condvar)> = PerProcess::new();

/// Waits until every load thread has ended, at most for a given time; false: some have not. A program that is
/// about to exit cancels its loads and waits here, since llama.cpp must not run on while the process
/// is torn down.
#[must_use]
pub fn join_loads(timeout: Duration) -> bool {
    let (running, ended) = RUNNING.get();
    let result = ended.wait_timeout_while(lock(running), timeout, |running| *running > 0);
    let (running, _) = result.unwrap_or_else(PoisonError::into_inner);
    *running == 0
}

/// Counts a load thread until it is dropped.
struct RunningLoad;

impl RunningLoad {
    fn new() -> Self {
        *lock(&RUNNING.get().0) += 1;
        Self
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        let (running, ended) = RUNNING.get();
        *lock(running) -= 1;
        ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::notify::{Listener, Notify};

    fn loading() -> Arc<Loading> {
        Arc::new(Loading {
            path: PathBuf::from("model.gguf"),
            config: ModelConfig::default(),
            wanted: Wanted::Any,
            owner: Owner::current(),
            is_cancelled: AtomicBool::new(false),
            waiting: Mutex::default(),
        })
    }

    /// Leaves its load as soon as it hears of it.
    #[derive(Default)]
    struct Leaver(OnceLock<(Arc<Loading>, Arc<Subscriber>)>);

    impl Notify for Leaver {
        fn ready(&self, _: u64) {
            let (loading, subscriber) = self.0.get().unwrap();
            loading.leave(subscriber);
        }

        fn flush(&self) {}
    }

    #[test]
    fn no_lock_is_held_while_a_listener_is_told() {
        let (loading, leaver) = (loading(), Arc::new(Leaver::default()));
        let listener = Listener { notify: Arc::clone(&leaver) as Arc<dyn Notify>, key: 0 };
        let subscriber = Arc::new(Subscriber::new(Some(listener)));
        assert!(leaver.0.set((Arc::clone(&loading), Arc::clone(&subscriber))).is_ok());
        loading.join(&subscriber);
        loading.report(0.5);
        assert!(loading.is_cancelled());
    }

    #[test]
    fn progress_never_falls_for_one_who_joins_beside_a_report() {
        let (loading, subscriber) = (loading(), Arc::new(Subscriber::new(None)));
        let found = loading.join(&subscriber);
        loading.report(0.5);
        subscriber.put(LoadEvent::Progress(found));
        assert_eq!(subscriber.lock().progress, Some(0.5));
    }
}
