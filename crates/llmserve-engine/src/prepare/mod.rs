//! The work on a request before it may queue: tokenize, check against the model, take a place.
//! Runs on threads of its own, so that a large prompt holds up neither callers nor the batch.

pub(crate) mod marked;
pub(crate) mod tokenizer;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use crate::command::Command;
use crate::constraint::{Compiler, Constraint};
use crate::draft::Drafter;
use crate::error::Error;
use crate::event::{Event, FinishReason, Finished, Timings, Usage};
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::queue::Place;
use crate::request::{GenerationRequest, Prompt};
use crate::sequence::Prepared;
use crate::session::Turn;
use crate::shared::Shared;
use crate::tokenizer::{STACK_BYTES, TokenJob, Tokenizer, lower_priority};

/// Number of prepare threads of an engine: a second one lets short prompts pass a long one.
pub(crate) const NUM_THREADS: usize = 2;

/// Work for a prepare thread.
pub(crate) enum Job {
    Request(Box<NewRequest>),
    Tokens(TokenJob),
}

impl Job {
    /// Answers work that was not taken.
    pub(crate) fn refuse(self, shared: &Shared, error: Error) {
        match self {
            Self::Request(new) => {
                shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
                shared.refuse(&new.outbox, error);
            }
            Self::Tokens(job) => job.refuse(error),
        }
    }
}

/// A submitted request with its place in the queue.
pub(crate) struct NewRequest {
    pub(crate) request: GenerationRequest,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) place: Place,
    /// Its turn, where it is of a session and that has come.
    pub(crate) turn: Option<Turn>,
    pub(crate) submitted: Instant,
}

/// What a prepare thread works with.
pub(crate) struct Preparer {
    pub(crate) vocabulary: Arc<dyn Vocabulary>,
    pub(crate) compiler: Arc<Compiler>,
    pub(crate) context_length: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Sender<Command>,
}

/// Starts a prepare thread; it ends when the channel of jobs closes.
pub(crate) fn spawn(preparer: Preparer, jobs: Receiver<Job>) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("llmserve-prepare".to_owned()).stack_size(STACK_BYTES);
    builder.spawn(move || {
        lower_priority();
        let shared = Arc::clone(&preparer.shared);
        for job in jobs {
            preparer.run(job);
        }
        drop(preparer);
        shared.thread_ended();
    })?;
    Ok(())
}

impl Preparer {
    fn run(&self, job: Job) {
        match job {
            Job::Request(new) => {
                // The engine thread takes what is queued out of the count, once it has counted it.
                if !self.prepare_request(*new) {
                    self.shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Job::Tokens(job) => job.run(&self.tokenizer(), &self.shared),
        }
    }

    /// Whether the request is in the queue now.
    fn prepare_request(&self, new: NewRequest) -> bool {
        let outbox = Arc::clone(&new.outbox);
        if outbox.is_aborted() {
            cancel(&self.shared, &outbox, &new.request, 0);
            return false;
        }
        if let Some(error) = self.shared.refusal() {
            self.shared.refuse(&outbox, error);
            return false;
        }
        let is_complete = new.request.constraint.is_none();
        match self.prepare(new) {
            Ok((prepared, place)) => self.enqueue(prepared, place),
            // A compilation ends with its request.
            Err(Error::ShutDown) if outbox.is_aborted() && self.shared.refusal().is_none() => {
                end_cancelled(&self.shared, &outbox, is_complete, 0);
                false
            }
            Err(error) => {
                self.shared.refuse(&outbox, error);
                false
            }
        }
    }

    fn prepare(&self, new: NewRequest) -> Result<(Prepared, Place), Error> {
        let NewRequest { mut request, outbox, drafter, mut place, turn, submitted } = new;
        let prompt = request.take_prompt();
        let prompt = match (&request.session, &turn) {
            (Some(session), Some(turn)) => self.compose(prompt, &session.mode, turn)?,
            _ => self.tokens_of(prompt)?,
        };
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let max_tokens = self.check_length(&request, prompt.len())?;
        let biased: Vec<TokenId> = request.sampling.logit_bias.iter().map(|&(token, _)| token).collect();
        self.check_tokens("logit_bias", &biased)?;
        self.check_tokens("stop_token_ids", &request.stopping.stop_token_ids)?;
        let is_stopped = || outbox.is_aborted() || self.shared.refusal().is_some();
        let constraint = self.constraint(&request, max_tokens - prompt.len(), &is_stopped)?;
        place.add_tokens(prompt.len())?;
        let seed = request.sampling.seed.unwrap_or_else(random_seed);
        let output = Output::new(&request, seed, &prompt, max_tokens, constraint);
        let prepared = Prepared { request, prompt, seed, output, outbox, drafter, turn, submitted };
        Ok((prepared, place))
    }

    pub(crate) fn tokens_of(&self, prompt: Prompt) -> Result<Vec<TokenId>, Error> {
        self.tokenizer().tokens_of(prompt)
    }

    /// The request's constraint, if the tokens that may be generated hold a document.
    fn constraint(
        &self,
        request: &GenerationRequest,
        budget: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Box<Constraint>>, Error> {
        let Some(spec) = &request.constraint else {
            return Ok(None);
        };
        let grammar = self.compiler.compile(spec, is_stopped)?;
        Constraint::new(grammar, budget).map(|constraint| Some(Box::new(constraint)))
    }

    /// The most tokens of prompt and output together.
    fn check_length(&self, request: &GenerationRequest, num_prompt: usize) -> Result<usize, Error> {
        let exceeded = |context_length| Error::ContextExceeded { prompt_tokens: num_prompt, context_length };
        if num_prompt >= self.context_length {
            return Err(exceeded(self.context_length));
        }
        let mut limit = self.context_length;
        if let Some(max_total) = request.stopping.max_total_tokens {
            if num_prompt > max_total as usize {
                return Err(exceeded(max_total as usize));
            }
            limit = limit.min(max_total as usize);
        }
        if let Some(max_tokens) = request.stopping.max_tokens {
            limit = limit.min(num_prompt.saturating_add(max_tokens as usize));
        }
        Ok(limit)
    }

    fn check_tokens(&self, field: &'static str, tokens: &[TokenId]) -> Result<(), Error> {
        self.tokenizer().check_tokens(field, tokens)
    }

    fn tokenizer(&self) -> Tokenizer<'_> {
        Tokenizer { vocabulary: &*self.vocabulary, context_length: self.context_length, bounds_texts: true }
    }

    fn enqueue(&self, prepared: Prepared, place: Place) -> bool {
        let outbox = Arc::clone(&prepared.outbox);
        let num_prompt_tokens = prepared.prompt.len();
        if outbox.is_aborted() {
            cancel(&self.shared, &outbox, &prepared.request, num_prompt_tokens);
            return false;
        }
        outbox.push_now(Event::Accepted { num_prompt_tokens });
        let is_sent = self.commands.send(Command::Submit(Box::new(prepared), place)).is_ok();
        if !is_sent {
            self.shared.forget(outbox.id);
            outbox.push_now(Event::Failed(self.shared.refusal().unwrap_or(Error::ShutDown)));
        }
        is_sent
    }
}

/// Ends a request that its client gave up before it was queued.
pub(crate) fn cancel(
    shared: &Shared,
    outbox: &Outbox,
    request: &GenerationRequest,
    num_prompt_tokens: usize,
) {
    // An empty text is no document.
    end_cancelled(shared, outbox, request.constraint.is_none(), num_prompt_tokens);
}

fn end_cancelled(shared: &Shared, outbox: &Outbox, is_complete: bool, num_prompt_tokens: usize) {
    shared.forget(outbox.id);
    shared.num_cancelled.fetch_add(1, Ordering::Relaxed);
    outbox.push_now(Event::Finished(Finished {
        reason: FinishReason::Cancelled,
        usage: Usage { num_prompt_tokens, ..Usage::default() },
        timings: Timings::default(),
        seed: 0,
        stop: None,
        is_complete,
    }));
}

/// Below 2^31, so that a client of any dialect can send it back.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 33
}
