//! Prepares a request before it queues: tokenizes, checks against the model, takes a place. Runs
//! on threads of its own, so that a large prompt holds up neither callers nor the batch.

mod compose;
mod marked;
mod pending;
pub(crate) mod tokenizer;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use crate::command::Command;
use crate::constraint::{Compiler, Constraint};
use crate::error::Error;
use crate::event::{Event, FinishReason, Finished, Timings, Usage};
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::output::{Output, Text};
use crate::queue::Place;
use crate::request::{GenerationRequest, MAX_PROMPT_LOGPROBS, Prompt};
use crate::sequence::Prepared;
use crate::shared::Shared;
use crate::worker::ticket::Ticket;

pub(crate) use pending::{InSession, NewRequest, start};
use tokenizer::{Tokenizer, Tokenizes};

/// The tools of a prepare thread.
pub(crate) struct Preparer {
    pub(crate) vocabulary: Arc<dyn Vocabulary>,
    pub(crate) compiler: Arc<Compiler>,
    pub(crate) context_length: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Sender<Command>,
}

impl Tokenizes for Preparer {
    fn tokenizer(&self) -> Tokenizer<'_> {
        Tokenizer { vocabulary: &*self.vocabulary, context_length: self.context_length, bounds_texts: true }
    }
}

impl Preparer {
    /// Prepares a request and hands it to the engine thread. If it is lost on the way, its ticket answers it.
    fn run(&self, new: NewRequest, ticket: Ticket) {
        if ticket.outbox().is_aborted() {
            return ticket.cancel(cancelled(new.request.constraint.is_none(), 0));
        }
        if let Some(error) = self.shared.refusal() {
            return ticket.refuse(error);
        }
        let is_complete = new.request.constraint.is_none();
        match self.prepare(new) {
            Ok((prepared, place)) => self.enqueue(prepared, place, ticket),
            // A compilation ends with its request.
            Err(Error::ShutDown) if ticket.outbox().is_aborted() && self.shared.refusal().is_none() => {
                ticket.cancel(cancelled(is_complete, 0));
            }
            Err(error) => ticket.refuse(error),
        }
    }

    fn prepare(&self, new: NewRequest) -> Result<(Prepared, Place), Error> {
        let NewRequest { mut request, outbox, drafter, head, mut place, turn, submitted } = new;
        let prompt = request.take_prompt();
        let mut prompt = match &turn {
            Some(turn) => self.compose(prompt, turn)?,
            None => self.tokens_of(prompt)?,
        };
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let max_tokens = self.check_length(&request, prompt.len())?;
        check_prompt_logprobs(&request, prompt.len())?;
        let biased: Vec<TokenId> = request.sampling.logit_bias.iter().map(|&(token, _)| token).collect();
        self.check_tokens("logit_bias", &biased)?;
        let allowed = request.sampling.allowed_token_ids.as_deref();
        self.check_tokens("allowed_token_ids", allowed.unwrap_or_default())?;
        self.check_tokens("stop_token_ids", &request.stopping.stop_token_ids)?;
        let is_stopped = || outbox.is_aborted() || self.shared.refusal().is_some();
        let constraint = self.constraint(&request, max_tokens - prompt.len(), &is_stopped)?;
        place.add_tokens(prompt.len())?;
        let seed = request.sampling.seed.unwrap_or_else(random_seed);
        let text = Text { tokens: &mut prompt, vocabulary: &*self.vocabulary };
        let output = Output::new(&request, seed, &text, max_tokens, constraint);
        let prepared = Prepared { request, prompt, seed, output, outbox, drafter, turn, head, submitted };
        Ok((prepared, place))
    }

    fn tokens_of(&self, prompt: Prompt) -> Result<Vec<TokenId>, Error> {
        self.tokenizer().tokens_of(prompt)
    }

    /// The request's constraint, if a document fits into the tokens that may be generated.
    fn constraint(
        &self,
        request: &GenerationRequest,
        budget: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Box<Constraint>>, Error> {
        let Some(spec) = &request.constraint else {
            return Ok(None);
        };
        let started = Instant::now();
        let grammar = self.compiler.compile(spec, is_stopped)?;
        self.shared.note_constraint(started.elapsed());
        Constraint::new(grammar, budget).map(|constraint| Some(Box::new(constraint)))
    }

    /// Maximum number of tokens in prompt and output together.
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

    fn enqueue(&self, prepared: Prepared, place: Place, ticket: Ticket) {
        let num_prompt_tokens = prepared.prompt.len();
        if ticket.outbox().is_aborted() {
            let is_complete = prepared.request.constraint.is_none();
            return ticket.cancel(cancelled(is_complete, num_prompt_tokens));
        }
        ticket.outbox().push_now(Event::Accepted { num_prompt_tokens });
        if self.commands.send(Command::Submit(Box::new(prepared), place)).is_ok() {
            ticket.hand_over();
        }
    }
}

/// Bounds the size of the answer.
fn check_prompt_logprobs(request: &GenerationRequest, num_prompt: usize) -> Result<(), Error> {
    let Some(num_top) = request.prompt_logprobs else {
        return Ok(());
    };
    let num = num_prompt.saturating_mul(1 + num_top as usize);
    if num <= MAX_PROMPT_LOGPROBS {
        return Ok(());
    }
    let most = (MAX_PROMPT_LOGPROBS / num_prompt).saturating_sub(1);
    let reason = format!(
        "gives at most {MAX_PROMPT_LOGPROBS} log-probabilities, and {num} with {num_top} alternatives for each of \
         {num_prompt} tokens"
    );
    Err(Error::beyond("prompt_logprobs", most as f64, reason))
}

/// The end of a request that its client gave up before it was queued. `is_complete`: it has no constraint, whose
/// document an empty text would not be.
fn cancelled(is_complete: bool, num_prompt_tokens: usize) -> Finished {
    Finished {
        reason: FinishReason::Cancelled,
        usage: Usage { num_prompt_tokens, ..Usage::default() },
        timings: Timings::default(),
        seed: 0,
        stop: None,
        is_complete,
    }
}

/// Below 2^31, so that a client of any dialect can send it back.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 33
}
