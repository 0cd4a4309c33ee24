//! The work on a request before it may queue: tokenize, check against the model, take a place.
//! Runs on threads of its own, so that a large prompt holds up neither callers nor the batch.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use crate::constrained::Constrained;
use crate::constraint::Compiler;
use crate::core::Command;
use crate::draft::Drafter;
use crate::error::Error;
use crate::event::{Event, FinishReason, Finished, Timings, Usage};
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::marked;
use crate::model::Vocabulary;
use crate::outbox::Outbox;
use crate::queue::Place;
use crate::request::{GenerationRequest, Prompt, Special};
use crate::sequence::Prepared;
use crate::session::Turn;
use crate::shared::Shared;

/// Number of prepare threads of an engine: a second one lets short prompts pass a long one.
pub(crate) const NUM_THREADS: usize = 2;

/// Stack of a prepare thread; the pages are only touched when needed.
const STACK_BYTES: usize = 256 << 20;
/// Stack for each byte of a text. Many of llama.cpp's pre-tokenizers use `std::regex`, which recurses
/// for each character of a match: a long run of letters would overflow any fixed stack.
const STACK_PER_BYTE: usize = 1 << 10;

/// Work for a prepare thread.
pub(crate) enum Job {
    Request(Box<NewRequest>),
    Tokenize { text: String, add_special: bool, special: Special, result: JobSender<Vec<TokenId>> },
    Detokenize { tokens: Vec<TokenId>, render_special: bool, result: JobSender<Vec<u8>> },
}

impl Job {
    /// Answers work that was not taken.
    pub(crate) fn refuse(self, shared: &Shared, error: Error) {
        match self {
            Self::Request(new) => {
                shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
                shared.refuse(&new.outbox, error);
            }
            Self::Tokenize { result, .. } => result.send(Err(error)),
            Self::Detokenize { result, .. } => result.send(Err(error)),
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

/// Tokenizing a large prompt must not take a core from the compute threads, which wait for each
/// other several hundred times a step. On Linux the call is for the calling thread only.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        log::debug!("the priority of a prepare thread was not lowered: {error}");
    }
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
            Job::Tokenize { text, add_special, special, result } => {
                if !result.is_cancelled() && self.shared.refusal().is_none() {
                    result.send(self.tokenize(&text, add_special, special));
                }
            }
            Job::Detokenize { tokens, render_special, result } => {
                if !result.is_cancelled() && self.shared.refusal().is_none() {
                    result.send(self.detokenize(&tokens, render_special));
                }
            }
        }
    }

    fn detokenize(&self, tokens: &[TokenId], render_special: bool) -> Result<Vec<u8>, Error> {
        self.check_tokens("tokens", tokens)?;
        Ok(tokens.iter().flat_map(|&token| self.vocabulary.piece(token, render_special)).collect())
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
        match self.prepare(new) {
            Ok((prepared, place)) => self.enqueue(prepared, place),
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
        let constrained = self.constrained(&request, max_tokens - prompt.len())?;
        place.add_tokens(prompt.len())?;
        let seed = request.sampling.seed.unwrap_or_else(random_seed);
        let prepared =
            Prepared { request, prompt, max_tokens, seed, outbox, drafter, constrained, turn, submitted };
        Ok((prepared, place))
    }

    pub(crate) fn tokens_of(&self, prompt: Prompt) -> Result<Vec<TokenId>, Error> {
        match prompt {
            Prompt::Tokens(tokens) => {
                self.check_tokens("prompt", &tokens)?;
                Ok(tokens)
            }
            Prompt::Text { text, add_special, special } => {
                self.check_bytes(text.len())?;
                self.tokenize(&text, add_special, special)
            }
        }
    }

    /// Refuses a text that cannot fit without tokenizing it.
    fn check_bytes(&self, len: usize) -> Result<(), Error> {
        let fewest = len / self.vocabulary.max_piece_bytes().max(1);
        // Near the limit the exact count is worth its time.
        if fewest <= 2 * self.context_length {
            return Ok(());
        }
        Err(Error::TextTooLong { fewest_tokens: fewest, context_length: self.context_length })
    }

    /// Tokenizes with a stack that the text cannot overflow.
    fn tokenize(&self, text: &str, add_special: bool, special: Special) -> Result<Vec<TokenId>, Error> {
        let vocabulary = &*self.vocabulary;
        let tokenize = || match special {
            Special::Plain => vocabulary.tokenize(text, add_special, false),
            Special::Control => vocabulary.tokenize(text, add_special, true),
            Special::Marked => marked::tokenize(vocabulary, text, add_special),
        };
        let stack = text.len().saturating_mul(STACK_PER_BYTE);
        if stack <= STACK_BYTES {
            return tokenize();
        }
        let failed = |_| Error::Tokenize { reason: format!("a text of {} bytes is too long", text.len()) };
        std::thread::scope(|scope| {
            let work = || {
                lower_priority();
                tokenize()
            };
            let thread = std::thread::Builder::new().name("llmserve-prepare".to_owned()).stack_size(stack);
            thread
                .spawn_scoped(scope, work)
                .map_err(failed)?
                .join()
                .unwrap_or(Err(Error::Tokenize { reason: "the text could not be tokenized".to_owned() }))
        })
    }

    /// The request's constraint, if the tokens that may be generated hold a document.
    fn constrained(
        &self,
        request: &GenerationRequest,
        budget: usize,
    ) -> Result<Option<Box<Constrained>>, Error> {
        let Some(spec) = &request.constraint else {
            return Ok(None);
        };
        let constraint = self.compiler.compile(spec)?;
        Constrained::new(constraint, budget).map(|constrained| Some(Box::new(constrained)))
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
        let size = self.vocabulary.size();
        match tokens.iter().find(|token| usize::try_from(token.0).map_or(true, |id| id >= size)) {
            None => Ok(()),
            Some(token) => Err(Error::InvalidParameter {
                field,
                reason: format!("token {} is outside the vocabulary of {size} tokens", token.0),
            }),
        }
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
    shared.forget(outbox.id);
    shared.num_cancelled.fetch_add(1, Ordering::Relaxed);
    outbox.push_now(Event::Finished(Finished {
        reason: FinishReason::Cancelled,
        usage: Usage { num_prompt_tokens, ..Usage::default() },
        timings: Timings::default(),
        seed: 0,
        stop: None,
        // An empty text is no document.
        is_complete: request.constraint.is_none(),
    }));
}

/// Below 2^31, so that a client of any dialect can send it back.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 33
}
