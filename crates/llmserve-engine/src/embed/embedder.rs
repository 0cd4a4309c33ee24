//! The handle of a running embedding model.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};

use super::core::{Command, Core};
use super::prepare::{NewRequest, Preparer, Ranker, Request};
use super::request::{EmbeddingRequest, Embeddings, RankingInput, RankingRequest};
use crate::config::SchedulerConfig;
use crate::error::LoadError;
use crate::ids::TokenId;
use crate::job::{Job, JobSender, job};
use crate::model::{EmbeddingContext, EmbeddingLimits, Vocabulary};
use crate::model_info::ModelInfo;
use crate::notify::Listener;
use crate::queue::Queue;
use crate::request::{Prompt, Special};
use crate::shared::Shared;
use crate::tokenizer::{MAX_SMALL_JOBS, Texts, pace_of, pace_of_bytes, pool_options};
use crate::worker::Handle;
use crate::worker::pool::{Pace, TaskPool};
use crate::worker::thread::{self, no_thread};
use crate::worker::ticket::Preparing;

/// Tokenizers under whose vocabularies a long text may have few tokens: they drop white space, or have one
/// token for any word that they do not know.
const LOSSY_TOKENIZERS: [&str; 2] = ["bert", "t5"];

/// Architectures whose scores llama.cpp turns into probabilities.
const WITH_SOFTMAX: [&str; 2] = ["qwen3", "qwen3vl"];

/// Makes the context, on the thread that will use it.
pub type OpenEmbedding = Box<dyn FnOnce() -> Result<Box<dyn EmbeddingContext>, LoadError> + Send>;

/// The parts of an embedder.
pub struct EmbedderParts {
    /// Makes the context on the embed thread.
    pub open: OpenEmbedding,
    /// The model's vocabulary.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// What is known about the model; the context's limits are filled in.
    pub info: ModelInfo,
    /// Whether the model ranks documents, and gives no vectors.
    pub is_ranking: bool,
    /// Limits of the queue; the rest is ignored here.
    pub scheduler: SchedulerConfig,
}

/// A running embedding model, held open by this handle. Clones share it; with the last one it ends.
/// In its counters, a request that ended with vectors counts as stopped.
#[derive(Clone)]
pub struct Embedder {
    handle: Handle,
    /// The way to the prepare threads. What tells them to end has it too and is leaked in a forked child.
    texts: Texts<Preparer>,
}

impl Embedder {
    /// Starts the threads and waits until the context is made.
    ///
    /// # Errors
    /// Those of [`EmbedderParts::open`], or a thread that cannot be started.
    pub fn start(parts: EmbedderParts) -> Result<Self, LoadError> {
        let EmbedderParts { open, vocabulary, mut info, is_ranking, scheduler } = parts;
        let queue = Queue::new(scheduler.max_queued_requests, scheduler.max_queued_tokens);
        let max_waiting = scheduler.max_queued_requests.max(1) + MAX_SMALL_JOBS;
        let shared = Arc::new(Shared::new(queue));
        let (commands, receiver) = unbounded();
        let for_core = Arc::clone(&shared);
        let limits = thread::start("llmserve-embed", &shared, move || {
            let context = open()?;
            let limits = *context.limits();
            Ok((Core::new(context, for_core, receiver), limits))
        })?;
        describe(&mut info, &limits, &*vocabulary);
        let tokenizer = info.metadata.get("tokenizer.ggml.model").map(String::as_str);
        let bounds_texts = !tokenizer.is_some_and(|name| LOSSY_TOKENIZERS.contains(&name));
        let ranker = is_ranking.then(|| Ranker {
            frame: vocabulary.pair_frame(),
            gives_probabilities: WITH_SOFTMAX.contains(&info.architecture.as_str()),
        });
        let preparer = Preparer {
            vocabulary,
            limits,
            ranker,
            bounds_texts,
            shared: Arc::clone(&shared),
            commands: commands.clone(),
        };
        let pool = TaskPool::start(&pool_options(false), preparer, &shared).map_err(no_thread)?;
        let stop = stop(commands, pool.clone());
        let texts = Texts { pool, shared: Arc::clone(&shared), max_waiting };
        Ok(Self { handle: Handle::new(shared, info, stop), texts })
    }

    /// Submits a request; never blocks. Dropping the job, or cancelling it, gives the request up: what is
    /// not computed of it never is.
    #[must_use]
    pub fn embed(&self, request: EmbeddingRequest, listener: Option<Listener>) -> Job<Embeddings> {
        self.submit(Request::Embed(request), listener)
    }

    /// Submits a request for scores, under the rules of [`Self::embed`]. The answer has one value for each pair.
    #[must_use]
    pub fn rank(&self, request: RankingRequest, listener: Option<Listener>) -> Job<Embeddings> {
        self.submit(Request::Rank(request), listener)
    }

    fn submit(&self, request: Request, listener: Option<Listener>) -> Job<Embeddings> {
        let (reply, job) = job(self.handle.shared(), listener);
        self.enter(request, reply);
        job
    }

    /// Has a request prepared, if there is a place for it.
    fn enter(&self, request: Request, reply: JobSender<Embeddings>) {
        let shared = self.handle.shared();
        // A reply that is dropped says why it is.
        if shared.refusal().is_some() {
            return;
        }
        match shared.queue.enter(request.tenant().clone()) {
            Ok(place) => {
                let preparing = Preparing::new(shared);
                let new = NewRequest { request, place, preparing, reply, submitted: Instant::now() };
                let tenant = new.place.tenant().clone();
                self.texts.pool.push_of(tenant, pace(&new.request), move |preparer| preparer.run(new));
            }
            Err(error) => {
                shared.num_refused.fetch_add(1, Ordering::Relaxed);
                reply.send(Err(error));
            }
        }
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
        self.texts.tokenize(text, add_special, special, listener)
    }

    /// The bytes of tokens, on a prepare thread. With `render_special` control tokens appear as text.
    #[must_use]
    pub fn detokenize(
        &self,
        tokens: Vec<TokenId>,
        render_special: bool,
        listener: Option<Listener>,
    ) -> Job<Vec<u8>> {
        self.texts.detokenize(tokens, render_special, listener)
    }
}

impl Deref for Embedder {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

/// How long a request takes to tokenize.
fn pace(request: &Request) -> Pace {
    match request {
        Request::Embed(request) => pace_of(&request.inputs),
        Request::Rank(request) => pace_of_bytes(request.pairs.iter().map(num_bytes).sum()),
    }
}

fn num_bytes(input: &RankingInput) -> usize {
    match input {
        RankingInput::Pair { document, .. } => document.len(),
        RankingInput::Joined(Prompt::Text { text, .. }) => text.len(),
        RankingInput::Joined(Prompt::Tokens(_)) => 0,
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

/// The way to tell the threads to end.
fn stop(commands: Sender<Command>, pool: TaskPool<Preparer>) -> impl Fn() {
    move || {
        pool.close();
        if commands.send(Command::ShutDown).is_err() {
            log::debug!("the embed thread had ended before its shutdown");
        }
    }
}
