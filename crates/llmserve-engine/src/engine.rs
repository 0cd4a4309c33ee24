//! The handle of a running engine.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::command::Command;
use crate::config::SchedulerConfig;
use crate::constraint::Compiler;
use crate::core::Core;
use crate::draft::{DraftMethod, Drafter, Drafting, Head};
use crate::error::{Error, LoadError, LoadErrorReason};
use crate::event::Event;
use crate::ids::{RequestId, TokenId};
use crate::job::{self, Job};
use crate::jobs::{FORKED, Jobs, Senders};
use crate::model::{Context, ContextLimits, ModelInfo, Vocabulary};
use crate::notify::Listener;
use crate::outbox::{Outbox, RequestHandle};
use crate::prepare::{self, NewRequest, Preparer};
use crate::process::Owner;
use crate::queue::Queue;
use crate::request::{GenerationRequest, Special};
use crate::session::{self, Call, Session};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::tokenizer::TokenJob;

/// Texts to tokenize and the like that may wait beside the requests.
pub(crate) const MAX_SMALL_JOBS: usize = 64;
pub(crate) const PANICKED: &str = "its thread ended by a fault";

/// Makes the context, on the thread that will use it.
pub type OpenContext = Box<dyn FnOnce() -> Result<Box<dyn Context>, LoadError> + Send>;

/// What an engine is made of.
pub struct EngineParts {
    /// Makes the context on the engine thread.
    pub open: OpenContext,
    /// The model's vocabulary.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// What is known of the model; the context's limits are filled in.
    pub info: ModelInfo,
    /// Limits of queue, step and caches.
    pub scheduler: SchedulerConfig,
}

/// A running engine. Clones share it; with the last one it ends.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    owner: Owner,
    commands: Sender<Command>,
    jobs: Arc<Jobs>,
    shared: Arc<Shared>,
    info: ModelInfo,
    next_id: AtomicU64,
}

impl Engine {
    /// Starts the engine's threads and waits until its context is made.
    ///
    /// # Errors
    /// What [`EngineParts::open`] fails with; a thread that cannot be started.
    pub fn start(parts: EngineParts) -> Result<Self, LoadError> {
        let EngineParts { open, vocabulary, mut info, scheduler } = parts;
        let queue = Queue::new(scheduler.max_queued_requests, scheduler.max_queued_tokens);
        let max_jobs = scheduler.max_queued_requests.max(1) + MAX_SMALL_JOBS;
        let shared = Arc::new(Shared::new(queue, 1));
        let (commands, command_receiver) = unbounded();
        let parking_bytes = scheduler.parking_bytes;
        let core = CoreThread {
            open,
            vocabulary: Arc::clone(&vocabulary),
            scheduler,
            shared: Arc::clone(&shared),
            commands: command_receiver,
        };
        let limits = core.spawn()?;
        let compiler = Arc::new(Compiler::new(Arc::clone(&vocabulary)));
        // Bounded where work comes in: what has waited for its session is not refused any more.
        let (prepare_jobs, jobs) = unbounded();
        let (file_jobs, files) = unbounded();
        let preparer = || Preparer {
            vocabulary: Arc::clone(&vocabulary),
            compiler: Arc::clone(&compiler),
            context_length: limits.context_length,
            shared: Arc::clone(&shared),
            commands: commands.clone(),
        };
        for _ in 0..prepare::NUM_THREADS {
            shared.thread_starts();
            prepare::spawn(preparer(), jobs.clone()).map_err(no_thread)?;
        }
        info.context_length = limits.context_length as u32;
        info.num_cells = limits.num_cells as u32;
        info.num_slots = limits.num_slots as u32;
        info.vocabulary_size = vocabulary.size() as u32;
        info.num_threads = limits.num_threads as u32;
        info.kv_layout = limits.layout.as_str();
        let storage = session::Storage {
            info: info.clone(),
            parking_bytes,
            shared: Arc::clone(&shared),
            commands: commands.clone(),
        };
        shared.thread_starts();
        session::spawn(storage, files).map_err(no_thread)?;
        let senders = Senders { prepare: prepare_jobs, files: file_jobs };
        Ok(Self {
            inner: Arc::new(Inner {
                owner: Owner::current(),
                commands,
                jobs: Arc::new(Jobs::new(Arc::clone(&shared), max_jobs, senders)),
                shared,
                info,
                next_id: AtomicU64::new(0),
            }),
        })
    }

    /// Submits a request; never blocks. Acceptance or refusal comes as an event.
    #[must_use]
    pub fn submit(&self, request: GenerationRequest, listener: Option<Listener>) -> RequestHandle {
        self.submit_drafting(request, None, listener)
    }

    /// Submits a request whose next tokens are guessed by a drafter. The text is the same as without.
    #[must_use]
    pub fn submit_drafting(
        &self,
        request: GenerationRequest,
        drafter: Option<Box<dyn Drafter>>,
        listener: Option<Listener>,
    ) -> RequestHandle {
        let submitted = Instant::now();
        let id = RequestId(self.inner.next_id.fetch_add(1, Ordering::Relaxed));
        let outbox = Arc::new(Outbox::new(id, request.delivery, listener));
        let session = request.session.as_ref().map(|session| session.session.clone());
        let commands = self.inner.commands.clone();
        let handle = RequestHandle::new(Arc::clone(&outbox), self.inner.owner, commands, session);
        if !self.inner.owner.is_current() {
            outbox.push_now(Event::Failed(Error::EngineDead { reason: FORKED }));
            return handle;
        }
        if let Err(error) = self.inner.enter(request, &outbox, drafter, submitted) {
            self.inner.shared.refuse(&outbox, error);
        }
        handle
    }

    /// A new, empty session.
    #[must_use]
    pub fn new_session(&self) -> Session {
        Session::new(Arc::clone(&self.inner.jobs))
    }

    /// A new session with the tokens of another one, of whatever engine of the same weights, as they are
    /// after its last call that has ended.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] where this engine's vocabulary has not all of the tokens.
    pub fn copy_session(&self, session: &Session) -> Result<Session, Error> {
        let copy = session.copied(Arc::clone(&self.inner.jobs));
        let size = self.inner.info.vocabulary_size;
        match copy.tokens().iter().find(|token| !(0..i64::from(size)).contains(&i64::from(token.0))) {
            Some(TokenId(token)) => Err(Error::InvalidParameter {
                field: "session",
                reason: format!("must hold tokens of this vocabulary, 0 to {}, got {token}", size - 1),
            }),
            None => Ok(copy),
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
        let (result, job) = job::job(listener);
        self.inner.jobs.start(prepare::Job::Tokens(TokenJob::Tokenize {
            text,
            add_special,
            special,
            result,
        }));
        job
    }

    /// The bytes of tokens, on a prepare thread. They may begin or end inside a character. With
    /// `render_special` control tokens appear as text.
    #[must_use]
    pub fn detokenize(
        &self,
        tokens: Vec<TokenId>,
        render_special: bool,
        listener: Option<Listener>,
    ) -> Job<Vec<u8>> {
        let (result, job) = job::job(listener);
        self.inner.jobs.start(prepare::Job::Tokens(TokenJob::Detokenize { tokens, render_special, result }));
        job
    }

    /// Makes the draft context of the model's own head, if there is none, and holds it.
    ///
    /// # Errors
    /// The job fails with [`Error::NoDraftHead`] where the model has no head, and with
    /// [`Error::DraftContext`] where llama.cpp could not make the context.
    #[must_use]
    pub fn open_head(&self, listener: Option<Listener>) -> Job<Head> {
        let (result, job) = job::job(listener);
        if !self.inner.owner.is_current() {
            result.send(Err(Error::EngineDead { reason: FORKED }));
        } else if let Some(error) = self.inner.shared.refusal() {
            result.send(Err(error));
        } else {
            let commands = self.inner.commands.clone();
            let sent = self.inner.commands.send(Command::OpenHead { result, commands });
            // The job ends with the command that was not taken.
            drop(sent);
        }
        job
    }

    /// Counters and gauges as of the last step.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.inner.owner.is_current() { self.inner.shared.stats() } else { Stats::default() }
    }

    /// What is known of the model.
    #[must_use]
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Why the engine is dead; `None` while it lives.
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

    /// How many handles of this engine there are.
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

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.inner.owner.is_current() {
            // The threads do not exist here, and a lock may be held for ever: leak everything.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Inner {
    fn enter(
        &self,
        request: GenerationRequest,
        outbox: &Arc<Outbox>,
        drafter: Option<Box<dyn Drafter>>,
        submitted: Instant,
    ) -> Result<(), Error> {
        self.shared.register(outbox);
        if let Some(error) = self.shared.refusal() {
            return Err(error);
        }
        let session = request.session.as_ref().map(|session| session.session.clone());
        if let Some(Drafting { method: DraftMethod::Head(head), .. }) = &request.drafting
            && !head.is_of(&self.commands)
        {
            return Err(foreign("drafting"));
        }
        if session.as_ref().is_some_and(|session| !session.is_of(&self.jobs)) {
            return Err(foreign("session"));
        }
        let new = Box::new(NewRequest {
            request,
            outbox: Arc::clone(outbox),
            drafter,
            place: self.shared.queue.enter()?,
            turn: None,
            submitted,
        });
        self.shared.num_preparing.fetch_add(1, Ordering::Relaxed);
        match session {
            Some(session) => session.enter(Call::Request(new)),
            None => self.jobs.start(prepare::Job::Request(new)),
        }
        Ok(())
    }

    fn shut_down(&self) {
        if !self.shared.set_shut_down() {
            return;
        }
        self.jobs.close();
        if self.commands.send(Command::ShutDown).is_err() {
            log::debug!("the engine thread had ended before its shutdown");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
        self.shared.join();
    }
}

fn foreign(field: &'static str) -> Error {
    Error::InvalidParameter { field, reason: "must be of the engine that it is used with".to_owned() }
}

/// What the engine thread needs to begin.
struct CoreThread {
    open: OpenContext,
    vocabulary: Arc<dyn Vocabulary>,
    scheduler: SchedulerConfig,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
}

impl CoreThread {
    /// Starts the thread and waits for its context.
    fn spawn(self) -> Result<ContextLimits, LoadError> {
        let (opened, is_open) = bounded(1);
        let builder = std::thread::Builder::new().name("llmserve-engine".to_owned());
        builder.spawn(move || self.run(&opened)).map_err(no_thread)?;
        let ended =
            || LoadError::new(LoadErrorReason::Other, "the engine thread ended while it made the context");
        is_open.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn run(self, opened: &Sender<Result<ContextLimits, LoadError>>) {
        let Self { open, vocabulary, scheduler, shared, commands } = self;
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let context = match open() {
                Ok(context) => context,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(*context.limits())).is_ok() {
                let mut core = Core::new(context, vocabulary, &scheduler, Arc::clone(&shared), commands);
                // Dropped before the core: what its sequences leave to others finds the engine dead.
                let _alarm = Alarm(&shared);
                core.run();
            }
        }));
        let error = if outcome.is_err() {
            shared.set_dead(PANICKED);
            Error::EngineDead { reason: PANICKED }
        } else {
            Error::ShutDown
        };
        let num_failed = shared.fail_all(&error);
        if num_failed > 0 {
            log::warn!("{num_failed} requests ended with the engine: {error}");
        }
        shared.thread_ended();
    }
}

/// Notes that the engine thread ends by a fault.
pub(crate) struct Alarm<'a>(pub(crate) &'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_dead(PANICKED);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn no_thread(error: std::io::Error) -> LoadError {
    LoadError::new(LoadErrorReason::Other, "a thread could not be started").with_detail(error.to_string())
}
