//! Prepares a request: its inputs are tokenized and checked, and it takes a place in the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Sender;

use super::core::Command;
use super::request::{EmbeddingRequest, Embeddings};
use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::model::{EmbeddingLimits, Vocabulary};
use crate::queue::Place;
use crate::request::Prompt;
use crate::shared::Shared;
use crate::tokenizer::{Tokenizer, Tokenizes};
use crate::worker::ticket::Preparing;

/// A submitted request with its place in the queue. If it is lost, it leaves the counts before it is answered.
pub(super) struct NewRequest {
    pub(super) request: EmbeddingRequest,
    pub(super) place: Place,
    pub(super) preparing: Preparing,
    pub(super) reply: JobSender<Embeddings>,
    pub(super) submitted: Instant,
}

/// A request that can be computed.
pub(super) struct Prepared {
    /// Tokens of each input.
    pub(super) inputs: Vec<Vec<TokenId>>,
    /// Number of values that are kept of each vector.
    pub(super) dimensions: usize,
    pub(super) normalize: bool,
    pub(super) reply: JobSender<Embeddings>,
    /// Held until the request is over.
    pub(super) place: Place,
    pub(super) submitted: Instant,
}

/// The tools of a prepare thread.
pub(super) struct Preparer {
    pub(super) vocabulary: Arc<dyn Vocabulary>,
    pub(super) limits: EmbeddingLimits,
    /// See [`Tokenizer::bounds_texts`].
    pub(super) bounds_texts: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Sender<Command>,
}

impl Tokenizes for Preparer {
    fn tokenizer(&self) -> Tokenizer<'_> {
        Tokenizer {
            vocabulary: &*self.vocabulary,
            context_length: self.limits.context_length,
            bounds_texts: self.bounds_texts,
        }
    }
}

impl Preparer {
    /// Prepares a request and hands it to the embed thread. Lost on the way, it is answered by its reply.
    pub(super) fn run(&self, mut new: NewRequest) {
        if self.shared.refusal().is_some() {
            return;
        }
        let checked = self.check(&mut new);
        if new.reply.is_cancelled() {
            self.shared.num_cancelled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let NewRequest { request, place, preparing, reply, submitted } = new;
        match checked {
            Ok((inputs, dimensions)) => {
                let normalize = request.normalize;
                let prepared = Prepared { inputs, dimensions, normalize, reply, place, submitted };
                if self.commands.send(Command::Embed(Box::new(prepared))).is_ok() {
                    preparing.hand_over();
                }
            }
            Err(error) => {
                self.shared.num_refused.fetch_add(1, Ordering::Relaxed);
                drop(preparing);
                reply.send(Err(error));
            }
        }
    }

    /// The tokens of the inputs, for which the queue has a place, and the size of the vectors.
    fn check(&self, new: &mut NewRequest) -> Result<(Vec<Vec<TokenId>>, usize), Error> {
        let dimensions = self.dimensions(new.request.dimensions)?;
        let inputs = self.inputs_of(std::mem::take(&mut new.request.inputs), &new.reply)?;
        new.place.add_tokens(inputs.iter().map(Vec::len).sum())?;
        Ok((inputs, dimensions))
    }

    /// The tokens of all inputs, or of some if nobody waits for them any more.
    fn inputs_of(
        &self,
        inputs: Vec<Prompt>,
        reply: &JobSender<Embeddings>,
    ) -> Result<Vec<Vec<TokenId>>, Error> {
        if inputs.is_empty() {
            return Err(Error::beyond("inputs", 1.0, "must have at least one input"));
        }
        let inputs = inputs.into_iter().enumerate();
        inputs
            .take_while(|_| !reply.is_cancelled())
            .map(|(index, input)| self.tokens_of(index, input))
            .collect()
    }

    fn dimensions(&self, wanted: Option<usize>) -> Result<usize, Error> {
        let most = self.limits.dimensions;
        match wanted {
            None => Ok(most),
            Some(wanted) if (1..=most).contains(&wanted) => Ok(wanted),
            Some(wanted) => {
                let reason =
                    format!("must be from 1 to {most}, the size of the model's vectors, got {wanted}");
                let limit = if wanted == 0 { 1 } else { most };
                Err(Error::beyond("dimensions", limit as f64, reason))
            }
        }
    }

    fn tokens_of(&self, index: usize, input: Prompt) -> Result<Vec<TokenId>, Error> {
        let limit = self.limits.context_length;
        let tokenizer = self.tokenizer();
        if let Prompt::Tokens(tokens) = &input
            && let Some(reason) = tokenizer.unknown_token(tokens)
        {
            return Err(Error::InvalidInput { index, reason });
        }
        let tokens = tokenizer.tokens_of(input).map_err(|error| of_input(index, error))?;
        match tokens.len() {
            0 => Err(Error::InvalidInput { index, reason: "must have at least one token".to_owned() }),
            num_tokens if num_tokens > limit => {
                Err(Error::InputTooLong { index, num_tokens, is_exact: true, limit })
            }
            _ => Ok(tokens),
        }
    }
}

/// An error about a text, as one about its input.
fn of_input(index: usize, error: Error) -> Error {
    if let Error::TextTooLong { fewest_tokens: num_tokens, context_length: limit } = error {
        Error::InputTooLong { index, num_tokens, is_exact: false, limit }
    } else if let Error::Tokenize { reason } = error {
        Error::InvalidInput { index, reason }
    } else {
        error
    }
}
