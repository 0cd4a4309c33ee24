//! The handle of a running embedding model.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::core::{Command, Core};
use super::prepare::{self, NewRequest, Preparer, Work};
use super::reply::Reply;
use super::request::{EmbeddingRequest, Embeddings};
use crate::config::SchedulerConfig;
use crate::engine::{Alarm, MAX_SMALL_JOBS, PANICKED, no_thread};
use crate::error::{Error, LoadError, LoadErrorReason};
use crate::ids::TokenId;
use crate::job::{self, Job};
use crate::jobs::FORKED;
use crate::lock::lock;
use crate::model::{EmbeddingContext, EmbeddingLimits, ModelInfo, Vocabulary};
use crate::notify::Listener;
use crate::process::Owner;
use crate::queue::Queue;
use crate::request::Special;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::tokenizer::TokenJob;

/// Tokenizers under whose vocabularies a long text may have few tokens: they drop white space, or have one
/// token for any word that they do not know.
const LOSSY_TOKENIZERS: [&str; 2] = ["bert", "t5"];

/// Makes the context, on the thread that will use it.
pub type OpenEmbedding = Box<dyn FnOnce() -> Result<Box<dyn EmbeddingContext>, LoadError> + Send>;

/// What an embedder is made of.
pub struct EmbedderParts {
    /// Makes the context on the embed thread.
    pub open: OpenEmbedding,
    /// The model's vocabulary.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// What is known of the model; the context's limits are filled in.
    pub info: ModelInfo,
    /// Limits of the queue; the rest has no meaning here.
    pub scheduler: SchedulerConfig,
}

/// A running embedding model. Clones share it; with the last one it ends.
#[derive(Clone)]
pub struct Embedder {
    inner: Arc<Inner>,
}

struct Inner {
    owner: Owner,
    commands: Sender<Command>,
    /// Taken at shutdown, so that the prepare threads end.
    work: Mutex<Option<Sender<Work>>>,
    /// The most work that waits for a prepare thread.
    max_work: usize,
    shared: Arc<Shared>,
    info: ModelInfo,
}

impl Embedder {
    /// Starts the threads and waits until the context is made.
    ///
    /// # Errors
    /// What [`EmbedderParts::open`] fails with; a thread that cannot be started.
    pub fn start(parts: EmbedderParts) -> Result<Self, LoadError> {
        let EmbedderParts { open, vocabulary, mut info, scheduler } = parts;
        let queue = Queue::new(scheduler.max_queued_requests, scheduler.max_queued_tokens);
        let shared = Arc::new(Shared::new(queue, 1));
        let (commands, command_receiver) = unbounded();
        let thread = CoreThread { open, shared: Arc::clone(&shared), commands: command_receiver };
        let limits = thread.spawn()?;
        // Bounded where work comes in.
        let (sender, work) = unbounded();
        let tokenizer = info.metadata.get("tokenizer.ggml.model").map(String::as_str);
        let bounds_texts = !tokenizer.is_some_and(|name| LOSSY_TOKENIZERS.contains(&name));
        for _ in 0..prepare::NUM_THREADS {
            let preparer = Preparer {
                vocabulary: Arc::clone(&vocabulary),
                limits,
                bounds_texts,
                shared: Arc::clone(&shared),
                commands: commands.clone(),
            };
            shared.thread_starts();
            prepare::spawn(preparer, work.clone()).map_err(no_thread)?;
        }
        describe(&mut info, &limits, &*vocabulary);
        Ok(Self {
            inner: Arc::new(Inner {
                owner: Owner::current(),
                commands,
                work: Mutex::new(Some(sender)),
                max_work: scheduler.max_queued_requests.max(1) + MAX_SMALL_JOBS,
                shared,
                info,
            }),
        })
    }

    /// Submits a request; never blocks. Dropping the job, or cancelling it, gives the request up: what is
    /// not computed of it never is.
    #[must_use]
    pub fn embed(&self, request: EmbeddingRequest, listener: Option<Listener>) -> Job<Embeddings> {
        let (sender, job) = job::job(listener);
        if self.inner.owner.is_current() {
            self.inner.enter(request, Reply::new(sender, Arc::clone(&self.inner.shared)));
        } else {
            sender.send(Err(Error::EngineDead { reason: FORKED }));
        }
        job
    }

    /// Tokenizes a text on a prepare thread.
    #[must_use]
    pub fn tokenize(
        &self,
        text: String,
        add_special: bool,
        special: Special,
        listener: Option<Listener>,
    ) -> Job<Vec<TokenId>> {
        let (result, job) = job::job(listener);
        self.inner.start(TokenJob::Tokenize { text, add_special, special, result });
        job
    }

    /// The bytes of tokens, on a prepare thread. With `render_special` control tokens appear as text.
    #[must_use]
    pub fn detokenize(
        &self,
        tokens: Vec<TokenId>,
        render_special: bool,
        listener: Option<Listener>,
    ) -> Job<Vec<u8>> {
        let (result, job) = job::job(listener);
        self.inner.start(TokenJob::Detokenize { tokens, render_special, result });
        job
    }

    /// Counters and gauges as of the last step. A request that ended with vectors counts as stopped.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.inner.owner.is_current() { self.inner.shared.stats() } else { Stats::default() }
    }

    /// What is known of the model; `embedding_length` is the size of its vectors.
    #[must_use]
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Why the embedder is dead; `None` while it lives.
    #[must_use]
    pub fn dead_reason(&self) -> Option<&'static str> {
        if !self.inner.owner.is_current() {
            return Some(FORKED);
        }
        self.inner.shared.dead_reason()
    }

    /// Whether [`Self::shutdown`] was called.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.inner.shared.is_shut_down()
    }

    /// How many handles of this embedder there are.
    #[must_use]
    pub fn num_handles(&self) -> usize {
        Arc::strong_count(&self.inner)
    }

    /// Ends waiting and running requests with [`Error::ShutDown`] and frees the context. Returns at
    /// once.
    pub fn shutdown(&self) {
        if self.inner.owner.is_current() {
            self.inner.shut_down();
        }
    }

    /// Waits until a shutdown is complete and the memory is freed.
    pub fn join(&self) {
        if self.inner.owner.is_current() {
            self.inner.shared.join();
        }
    }
}

impl Drop for Embedder {
    fn drop(&mut self) {
        if !self.inner.owner.is_current() {
            // The threads do not exist here, and a lock may be held for ever: leak everything.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Inner {
    fn enter(&self, request: EmbeddingRequest, reply: Reply) {
        // A reply that is dropped says why it is.
        if self.shared.refusal().is_some() {
            return;
        }
        match self.shared.queue.enter() {
            Ok(place) => {
                self.shared.num_preparing.fetch_add(1, Ordering::Relaxed);
                let new = NewRequest { request, reply, place, submitted: Instant::now() };
                if self.offer(Work::Embed(Box::new(new))).is_some() {
                    self.shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Err(error) => {
                self.shared.num_refused.fetch_add(1, Ordering::Relaxed);
                reply.send(Err(error));
            }
        }
    }

    fn start(&self, job: TokenJob) {
        if !self.owner.is_current() {
            return job.refuse(Error::EngineDead { reason: FORKED });
        }
        if let Some(Work::Tokens(job)) = self.offer(Work::Tokens(job)) {
            job.refuse(self.shared.refusal().unwrap_or_else(|| self.shared.queue.full()));
        }
    }

    /// Hands work over unless too much waits; what was not taken comes back.
    fn offer(&self, work: Work) -> Option<Work> {
        match &*lock(&self.work) {
            // Requests have taken a place in the queue, which is their bound.
            Some(sender) if matches!(work, Work::Embed(_)) || sender.len() < self.max_work => {
                sender.send(work).map_err(|unsent| unsent.0).err()
            }
            Some(_) | None => Some(work),
        }
    }

    fn shut_down(&self) {
        if !self.shared.set_shut_down() {
            return;
        }
        drop(lock(&self.work).take());
        if self.commands.send(Command::ShutDown).is_err() {
            log::debug!("the embed thread had ended before its shutdown");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
        self.shared.join();
    }
}

fn describe(info: &mut ModelInfo, limits: &EmbeddingLimits, vocabulary: &dyn Vocabulary) {
    info.context_length = limits.context_length as u32;
    info.num_cells = limits.num_cells as u32;
    info.num_slots = limits.max_sequences as u32;
    info.num_threads = limits.num_threads as u32;
    info.embedding_length = limits.dimensions as u32;
    info.vocabulary_size = vocabulary.size() as u32;
}

/// What the embed thread needs to begin.
struct CoreThread {
    open: OpenEmbedding,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
}

impl CoreThread {
    /// Starts the thread and waits for its context.
    fn spawn(self) -> Result<EmbeddingLimits, LoadError> {
        let (opened, is_open) = bounded(1);
        let builder = std::thread::Builder::new().name("llmserve-embed".to_owned());
        builder.spawn(move || self.run(&opened)).map_err(no_thread)?;
        let ended =
            || LoadError::new(LoadErrorReason::Other, "the embed thread ended while it made the context");
        is_open.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn run(self, opened: &Sender<Result<EmbeddingLimits, LoadError>>) {
        let Self { open, shared, commands } = self;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let context = match open() {
                Ok(context) => context,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(*context.limits())).is_ok() {
                let mut core = Core::new(context, Arc::clone(&shared), commands);
                // Dropped before the core: the replies of its requests then say that it is dead.
                let _alarm = Alarm(&shared);
                core.run();
            }
        }));
        if outcome.is_err() {
            shared.set_dead(PANICKED);
            log::error!("an embedding model is dead: {PANICKED}");
        }
        shared.thread_ended();
    }
}
