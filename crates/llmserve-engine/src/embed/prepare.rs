//! The work on a request before it may be computed: tokenize its inputs, check them, take a place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};

use super::core::Command;
use super::reply::Reply;
use super::request::EmbeddingRequest;
use crate::error::Error;
use crate::ids::TokenId;
use crate::model::{EmbeddingLimits, Vocabulary};
use crate::queue::Place;
use crate::request::Prompt;
use crate::shared::Shared;
use crate::tokenizer::{STACK_BYTES, TokenJob, Tokenizer, lower_priority};

/// A second thread lets short requests pass a long one.
pub(super) const NUM_THREADS: usize = 2;

/// Work for a prepare thread.
pub(super) enum Work {
    Embed(Box<NewRequest>),
    Tokens(TokenJob),
}

/// A submitted request with its place in the queue.
pub(super) struct NewRequest {
    pub(super) request: EmbeddingRequest,
    pub(super) reply: Reply,
    pub(super) place: Place,
    pub(super) submitted: Instant,
}

/// A request that can be computed.
pub(super) struct Prepared {
    /// Tokens of each input.
    pub(super) inputs: Vec<Vec<TokenId>>,
    /// Values that are kept of each vector.
    pub(super) dimensions: usize,
    pub(super) normalize: bool,
    pub(super) reply: Reply,
    /// Held until the request is over.
    pub(super) place: Place,
    pub(super) submitted: Instant,
}

/// What a prepare thread works with.
pub(super) struct Preparer {
    pub(super) vocabulary: Arc<dyn Vocabulary>,
    pub(super) limits: EmbeddingLimits,
    /// See [`Tokenizer::bounds_texts`].
    pub(super) bounds_texts: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Sender<Command>,
}

/// Starts a prepare thread; it ends when the channel closes.
pub(super) fn spawn(preparer: Preparer, work: Receiver<Work>) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("llmserve-prepare".to_owned()).stack_size(STACK_BYTES);
    builder.spawn(move || {
        lower_priority();
        let shared = Arc::clone(&preparer.shared);
        for work in work {
            match work {
                Work::Embed(new) => preparer.run(*new),
                Work::Tokens(job) => job.run(&preparer.tokenizer(), &preparer.shared),
            }
        }
        drop(preparer);
        shared.thread_ended();
    })?;
    Ok(())
}

impl Preparer {
    fn run(&self, new: NewRequest) {
        let send = |prepared| self.commands.send(Command::Embed(Box::new(prepared))).is_ok();
        // The embed thread takes what it gets out of the count, once it has counted it.
        if !self.prepare(new).is_some_and(send) {
            self.shared.num_preparing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The request as it is computed; `None` where it was answered, or nobody waits for it any more.
    fn prepare(&self, new: NewRequest) -> Option<Prepared> {
        let NewRequest { request, reply, mut place, submitted } = new;
        if self.shared.refusal().is_some() {
            return None;
        }
        let (wanted, normalize) = (request.dimensions, request.normalize);
        let checked = self.dimensions(wanted).and_then(|dimensions| {
            let inputs = self.inputs_of(request, &reply)?;
            place.add_tokens(inputs.iter().map(Vec::len).sum())?;
            Ok((dimensions, inputs))
        });
        if reply.is_cancelled() {
            self.shared.num_cancelled.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        match checked {
            Ok((dimensions, inputs)) => {
                Some(Prepared { inputs, dimensions, normalize, reply, place, submitted })
            }
            Err(error) => {
                self.shared.num_refused.fetch_add(1, Ordering::Relaxed);
                reply.send(Err(error));
                None
            }
        }
    }

    /// The tokens of all inputs, or of some where nobody waits for them any more.
    fn inputs_of(&self, request: EmbeddingRequest, reply: &Reply) -> Result<Vec<Vec<TokenId>>, Error> {
        if request.inputs.is_empty() {
            let reason = "must hold at least one input".to_owned();
            return Err(Error::InvalidParameter { field: "inputs", reason });
        }
        let inputs = request.inputs.into_iter().enumerate();
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
                Err(Error::InvalidParameter { field: "dimensions", reason })
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

    fn tokenizer(&self) -> Tokenizer<'_> {
        Tokenizer {
            vocabulary: &*self.vocabulary,
            context_length: self.limits.context_length,
            bounds_texts: self.bounds_texts,
        }
    }
}

/// An error about a text as one about the input that it is.
fn of_input(index: usize, error: Error) -> Error {
    if let Error::TextTooLong { fewest_tokens: num_tokens, context_length: limit } = error {
        Error::InputTooLong { index, num_tokens, is_exact: false, limit }
    } else if let Error::Tokenize { reason } = error {
        Error::InvalidInput { index, reason }
    } else {
        error
    }
}
