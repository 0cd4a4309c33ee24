//! Prepares a request: its inputs are tokenized and checked, and it takes a place in the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Sender;

use super::core::Command;
use super::pair::Joiner;
use super::request::{EmbeddingRequest, Embeddings, Finish, RankingInput, RankingRequest};
use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::model::{EmbeddingLimits, PairFrame, Vocabulary};
use crate::queue::Place;
use crate::request::Prompt;
use crate::shared::Shared;
use crate::tenant::Tenant;
use crate::tokenizer::{Tokenizer, Tokenizes};
use crate::worker::ticket::Preparing;

/// What a request asks for.
pub(super) enum Request {
    Embed(EmbeddingRequest),
    Rank(RankingRequest),
}

impl Request {
    pub(super) fn tenant(&self) -> &Tenant {
        match self {
            Self::Embed(request) => &request.tenant,
            Self::Rank(request) => &request.tenant,
        }
    }
}

/// How a model ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranker {
    pub(super) frame: PairFrame,
    /// Whether its scores are probabilities already.
    pub(super) gives_probabilities: bool,
}

/// A submitted request with its place in the queue. If it is lost, it leaves the counts before it is answered.
pub(super) struct NewRequest {
    pub(super) request: Request,
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
    pub(super) finish: Finish,
    pub(super) reply: JobSender<Embeddings>,
    /// Held until the request is over.
    pub(super) place: Place,
    pub(super) submitted: Instant,
}

/// The tools of a prepare thread.
pub(super) struct Preparer {
    pub(super) vocabulary: Arc<dyn Vocabulary>,
    pub(super) limits: EmbeddingLimits,
    /// `None` for models that give vectors.
    pub(super) ranker: Option<Ranker>,
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
        let NewRequest { place, preparing, reply, submitted, .. } = new;
        match checked {
            Ok((inputs, dimensions, finish)) => {
                let prepared = Prepared { inputs, dimensions, finish, reply, place, submitted };
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

    /// The tokens of the inputs, for which the queue has a place, the size of the vectors, and what becomes of
    /// them.
    fn check(&self, new: &mut NewRequest) -> Result<(Vec<Vec<TokenId>>, usize, Finish), Error> {
        let (inputs, dimensions, finish) = match (&mut new.request, &self.ranker) {
            (Request::Embed(request), None) => {
                let dimensions = self.dimensions(request.dimensions)?;
                let inputs = std::mem::take(&mut request.inputs);
                let inputs = inputs_of(inputs, &new.reply, |index, input| self.tokens_of(index, input))?;
                (inputs, dimensions, if request.normalize { Finish::Normalized } else { Finish::Raw })
            }
            (Request::Rank(request), Some(ranker)) => {
                let pairs = std::mem::take(&mut request.pairs);
                let mut joiner = Joiner::new(self.tokenizer(), &ranker.frame, request.truncate);
                let inputs = inputs_of(pairs, &new.reply, |index, pair| match pair {
                    RankingInput::Pair { query, document } => {
                        self.checked(index, joiner.join(query, document))
                    }
                    RankingInput::Joined(prompt) => self.tokens_of(index, prompt),
                })?;
                let is_raw = request.raw_scores || ranker.gives_probabilities;
                // Of several scores, the first one says how well the document fits.
                (inputs, 1, if is_raw { Finish::Raw } else { Finish::Logistic })
            }
            (Request::Embed(_), Some(_)) => {
                return Err(Error::invalid("model", "ranks documents and gives no embeddings"));
            }
            (Request::Rank(_), None) => {
                return Err(Error::invalid("model", "gives embeddings and does not rank documents"));
            }
        };
        new.place.add_tokens(inputs.iter().map(Vec::len).sum())?;
        Ok((inputs, dimensions, finish))
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
        let tokenizer = self.tokenizer();
        if let Prompt::Tokens(tokens) = &input
            && let Some(reason) = tokenizer.unknown_token(tokens)
        {
            return Err(Error::InvalidInput { index, reason });
        }
        self.checked(index, tokenizer.tokens_of(input))
    }

    fn checked(&self, index: usize, tokens: Result<Vec<TokenId>, Error>) -> Result<Vec<TokenId>, Error> {
        let limit = self.limits.context_length;
        let tokens = tokens.map_err(|error| of_input(index, error))?;
        match tokens.len() {
            0 => Err(Error::InvalidInput { index, reason: "must have at least one token".to_owned() }),
            num_tokens if num_tokens > limit => {
                Err(Error::InputTooLong { index, num_tokens, is_exact: true, limit })
            }
            _ => Ok(tokens),
        }
    }
}

/// The tokens of all inputs, or of some if nobody waits for them any more.
fn inputs_of<T>(
    inputs: Vec<T>,
    reply: &JobSender<Embeddings>,
    mut tokens_of: impl FnMut(usize, T) -> Result<Vec<TokenId>, Error>,
) -> Result<Vec<Vec<TokenId>>, Error> {
    if inputs.is_empty() {
        return Err(Error::beyond("inputs", 1.0, "must have at least one input"));
    }
    let inputs = inputs.into_iter().enumerate();
    inputs.take_while(|_| !reply.is_cancelled()).map(|(index, input)| tokens_of(index, input)).collect()
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
