//! The handle of a running engine.

mod request;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Sender, unbounded};

use crate::cached::CachedTokens;
use crate::command::Command;
use crate::config::SchedulerConfig;
use crate::constraint::Compiler;
use crate::core::Core;
use crate::draft::Head;
use crate::error::{Error, LoadError};
use crate::event::Event;
use crate::ids::{RequestId, TokenId};
use crate::job::{Job, JobSender, job};
use crate::model::{Context, ContextLimits, Vocabulary};
use crate::model_info::ModelInfo;
use crate::notify::Listener;
use crate::outbox::Outbox;
use crate::prepare::{self, InSession, NewRequest, Preparer};
use crate::queue::Queue;
use crate::request::Special;
use crate::session::{Call, Files, Session, SessionUse, Storage};
use crate::shared::Shared;
use crate::tokenizer::{self, MAX_SMALL_JOBS, Texts};
use crate::types::DraftMethod;
use crate::worker::Handle;
use crate::worker::pool::TaskPool;
use crate::worker::thread::{self, Work, no_thread};
use crate::worker::ticket::Ticket;

pub use request::{RequestHandle, Submission};

/// Makes the context, on the thread that will use it.
pub type OpenContext = Box<dyn FnOnce() -> Result<Box<dyn Context>, LoadError> + Send>;

/// The parts of an engine.
pub struct EngineParts {
    /// Makes the context on the engine thread.
    pub open: OpenContext,
    /// The model's vocabulary.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// What is known about the model; the context's limits are filled in.
    pub info: ModelInfo,
    /// Limits of queue, step and caches.
    pub scheduler: SchedulerConfig,
}

/// A running engine, held open by this handle. Clones share it; with the last one it ends.
///
/// The last one waits for the engine's threads when it is dropped, so none may end up in a
/// [`crate::Drafter`] or a [`crate::Notify`], which the engine thread drops.
#[derive(Clone)]
pub struct Engine {
    handle: Handle,
    ways: Arc<Ways>,
}

/// The ways to the engine's threads. What tells them to end has each of them too and is leaked in a forked
/// child, so none is closed there.
struct Ways {
    commands: Sender<Command>,
    texts: Texts<Preparer>,
    files: Arc<Files>,
    next_id: AtomicU64,
}

impl Work for Core {
    fn run(&mut self) {
        self.run();
    }
}

impl Engine {
    /// Starts the engine's threads and waits until its context is made.
    ///
    /// # Errors
    /// Those of [`EngineParts::open`], or a thread that cannot be started.
    pub fn start(parts: EngineParts) -> Result<Self, LoadError> {
        let EngineParts { open, vocabulary, mut info, scheduler } = parts;
        let queue = Queue::new(scheduler.max_queued_requests, scheduler.max_queued_tokens);
        let max_waiting = scheduler.max_queued_requests.max(1) + MAX_SMALL_JOBS;
        let parking_bytes = scheduler.parking_bytes;
        let shared = Arc::new(Shared::new(queue));
        let (commands, receiver) = unbounded();
        let (words, for_core) = (Arc::clone(&vocabulary), Arc::clone(&shared));
        let limits = thread::start("llmserve-engine", &shared, move || {
            let context = open()?;
            let limits = *context.limits();
            Ok((Core::new(context, words, &scheduler, for_core, receiver), limits))
        })?;
        describe(&mut info, &limits, &*vocabulary);
        let storage = Storage {
            info: info.clone(),
            parking_bytes,
            shared: Arc::clone(&shared),
            cells: Box::new(commands.clone()),
        };
        let files = Arc::new(Files::start(storage, &shared).map_err(no_thread)?);
        let preparer = Preparer {
            compiler: Arc::new(Compiler::new(Arc::clone(&vocabulary))),
            vocabulary,
            context_length: limits.context_length,
            shared: Arc::clone(&shared),
            commands: commands.clone(),
        };
        let pool = TaskPool::start(&tokenizer::pool_options(true), preparer, &shared);
        let pool = pool.inspect_err(|_| files.pool.close()).map_err(no_thread)?;
        let stop = stop(commands.clone(), pool.clone(), Arc::clone(&files));
        let texts = Texts { pool, shared: Arc::clone(&shared), max_waiting };
        let ways = Arc::new(Ways { commands, texts, files, next_id: AtomicU64::new(0) });
        Ok(Self { handle: Handle::new(shared, info, stop), ways })
    }

    /// Submits a request; never blocks. Acceptance or refusal comes as an event.
    #[must_use]
    pub fn submit(&self, submission: impl Into<Submission>, listener: Option<Listener>) -> RequestHandle {
        let submission = submission.into();
        let (shared, ways) = (self.handle.shared(), &self.ways);
        let id = RequestId(ways.next_id.fetch_add(1, Ordering::Relaxed));
        let outbox = Arc::new(Outbox::new(id, submission.request.delivery, listener));
        let session = submission.session.as_ref().map(|used| used.session.clone());
        let commands = ways.commands.clone();
        let handle = RequestHandle::new(Arc::clone(&outbox), Arc::clone(shared), commands, session);
        match shared.refusal() {
            // In a forked child nothing more may be touched.
            Some(error) => outbox.push_now(Event::Failed(error)),
            None => ways.enter(submission, outbox, shared),
        }
        handle
    }

    /// A new, empty session.
    #[must_use]
    pub fn new_session(&self) -> Session {
        Session::new(Arc::clone(&self.ways.files))
    }

    /// A new session with the tokens of another one, of any engine of the same weights, as they are
    /// after its last call that has ended.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if this engine's vocabulary lacks some of the tokens.
    pub fn copy_session(&self, session: &Session) -> Result<Session, Error> {
        let copy = session.copied(Arc::clone(&self.ways.files));
        let size = self.info().vocabulary_size;
        match copy.tokens().iter().find(|token| !(0..i64::from(size)).contains(&i64::from(token.0))) {
            Some(TokenId(token)) => {
                let reason =
                    format!("must contain tokens of this vocabulary, 0 to {}, got {token}", size - 1);
                Err(Error::invalid("session", reason))
            }
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
        self.ways.texts.tokenize(text, add_special, special, listener)
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
        self.ways.texts.detokenize(tokens, render_special, listener)
    }

    /// Makes the draft context of the model's own head, if there is none, and holds it.
    ///
    /// # Errors
    /// The job fails with [`Error::NoDraftHead`] if the model has no head, and with
    /// [`Error::DraftContext`] if llama.cpp could not make the context.
    #[must_use]
    pub fn open_head(&self, listener: Option<Listener>) -> Job<Head> {
        let commands = self.ways.commands.clone();
        self.ask(listener, |result| Command::OpenHead { result, commands })
    }

    /// The tokens whose cells exist and may be used by every request, as they are between two steps.
    #[must_use]
    pub fn cached_tokens(&self, listener: Option<Listener>) -> Job<CachedTokens> {
        self.ask(listener, Command::ListCached)
    }

    /// A job for the engine thread.
    fn ask<T>(&self, listener: Option<Listener>, command: impl FnOnce(JobSender<T>) -> Command) -> Job<T> {
        let (result, job) = job(self.handle.shared(), listener);
        // A job ends with its command if that is not taken. In a forked child it must not even be sent.
        if self.handle.shared().refusal().is_none() {
            drop(self.ways.commands.send(command(result)));
        }
        job
    }
}

impl Deref for Engine {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Ways {
    /// Starts a request, or lets it wait for its turn in its session.
    fn enter(&self, submission: Submission, outbox: Arc<Outbox>, shared: &Arc<Shared>) {
        let submitted = Instant::now();
        let ticket = Ticket::new(Arc::clone(&outbox), shared);
        let checked = check(&submission, shared);
        let Submission { request, session, head, drafter, tenant } = submission;
        let place = match checked.and_then(|()| shared.queue.enter(tenant)) {
            Ok(place) => place,
            Err(error) => return ticket.refuse(error),
        };
        let new = NewRequest { request, outbox, drafter, head, place, turn: None, submitted };
        let pool = self.texts.pool.clone();
        match session {
            None => prepare::start(&pool, new, ticket),
            Some(SessionUse { session, mode, templated }) => {
                session.enter(Call::Request(Box::new(InSession { new, ticket, mode, templated, pool })));
            }
        }
    }
}

/// Checks of a submission that can be made at once.
fn check(submission: &Submission, shared: &Arc<Shared>) -> Result<(), Error> {
    let by_head = submission.request.drafting.is_some_and(|drafting| drafting.method == DraftMethod::Head);
    match &submission.head {
        Some(head) if !head.is_of(shared) => return Err(foreign("drafting")),
        None if by_head => {
            let reason = "needs a head of the engine, which keeps the draft context open";
            return Err(Error::invalid("drafting", reason));
        }
        Some(_) | None => {}
    }
    if submission.session.as_ref().is_some_and(|used| !used.session.is_of(shared)) {
        return Err(foreign("session"));
    }
    Ok(())
}

fn foreign(field: &'static str) -> Error {
    Error::invalid(field, "must belong to the engine that it is used with")
}

fn describe(info: &mut ModelInfo, limits: &ContextLimits, vocabulary: &dyn Vocabulary) {
    info.context_length = limits.context_length as u32;
    info.num_cells = limits.num_cells as u32;
    info.num_slots = limits.num_slots as u32;
    info.vocabulary_size = vocabulary.size() as u32;
    info.num_threads = limits.num_threads as u32;
    info.kv_layout = limits.layout.as_str();
}

/// The way to tell the threads to end.
fn stop(commands: Sender<Command>, pool: TaskPool<Preparer>, files: Arc<Files>) -> impl Fn() {
    move || {
        pool.close();
        files.pool.close();
        if commands.send(Command::ShutDown).is_err() {
            log::debug!("the engine thread had ended before its shutdown");
        }
    }
}
