//! Turns texts into tokens and back, on threads whose stack no text can overflow.

use std::sync::Arc;

use crate::error::Error;
use crate::ids::TokenId;
use crate::job::{Job, job};
use crate::model::Vocabulary;
use crate::notify::Listener;
use crate::request::{Prompt, Special};
use crate::shared::Shared;
use crate::worker::pool::{Pace, PoolOptions, TaskPool};

use super::marked;

/// Stack of a thread that tokenizes; the pages are only touched when needed.
const STACK_BYTES: usize = 256 << 20;
/// Stack for each byte of a text. Many of llama.cpp's pre-tokenizers use `std::regex`, which recurses
/// for each character of a match: a long run of letters would overflow any fixed stack.
const STACK_PER_BYTE: usize = 1 << 10;

/// A vocabulary, and the length that its texts must not exceed.
#[derive(Clone, Copy)]
pub(crate) struct Tokenizer<'a> {
    pub(crate) vocabulary: &'a dyn Vocabulary,
    /// The context length, in tokens.
    pub(crate) context_length: usize,
    /// Whether a text's length in bytes says how many tokens it has at least. It does not where a
    /// vocabulary drops white space, or has one token for any word that it does not know.
    pub(crate) bounds_texts: bool,
}

impl Tokenizer<'_> {
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
        if !self.bounds_texts || fewest <= 2 * self.context_length {
            return Ok(());
        }
        Err(Error::TextTooLong { fewest_tokens: fewest, context_length: self.context_length })
    }

    /// Tokenizes with a stack that the text cannot overflow.
    pub(crate) fn tokenize(
        &self,
        text: &str,
        add_special: bool,
        special: Special,
    ) -> Result<Vec<TokenId>, Error> {
        let vocabulary = self.vocabulary;
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
            let thread = std::thread::Builder::new().name("llmserve-prepare".to_owned()).stack_size(stack);
            thread
                .spawn_scoped(scope, tokenize)
                .map_err(failed)?
                .join()
                .unwrap_or(Err(Error::Tokenize { reason: "the text could not be tokenized".to_owned() }))
        })
    }

    pub(crate) fn detokenize(&self, tokens: &[TokenId], render_special: bool) -> Result<Vec<u8>, Error> {
        self.check_tokens("tokens", tokens)?;
        Ok(tokens.iter().flat_map(|&token| self.vocabulary.piece(token, render_special)).copied().collect())
    }

    /// Refuses ids outside the vocabulary.
    pub(crate) fn check_tokens(&self, field: &'static str, tokens: &[TokenId]) -> Result<(), Error> {
        match self.unknown_token(tokens) {
            None => Ok(()),
            Some(reason) => Err(Error::invalid(field, reason)),
        }
    }

    /// What is wrong with the first id outside the vocabulary.
    pub(crate) fn unknown_token(&self, tokens: &[TokenId]) -> Option<String> {
        let size = self.vocabulary.size();
        let unknown = tokens.iter().find(|token| usize::try_from(token.0).map_or(true, |id| id >= size))?;
        Some(format!("token {} is outside the vocabulary of {size} tokens", unknown.0))
    }
}

/// Something that has a vocabulary to tokenize with.
pub(crate) trait Tokenizes: Send + Sync + 'static {
    fn tokenizer(&self) -> Tokenizer<'_>;
}

/// Minimum and maximum number of prepare threads. Three, so that two schemas that take seconds to compile
/// leave one to others ([`TaskPool`] keeps slow work off the last thread); more than eight only wait for the
/// model.
const NUM_THREADS: (usize, usize) = (3, 8);

/// Maximum number of texts to tokenize, and the like, that may wait beside the requests.
pub(crate) const MAX_SMALL_JOBS: usize = 64;

/// Longer prompts are slow work: a tenth of a second by the slowest tokenizers.
const MAX_QUICK_BYTES: usize = 64 << 10;

/// The configuration of the prepare threads of an engine or embedder. `keeps_order`: requests queue in the order in which they were
/// submitted, as far as they are quick to prepare.
///
/// They have the normal priority. Nice 10 gained nothing: while three texts of 500 KB were tokenized, the gaps of a stream
/// were 14.2 ms (median) and 30 ms (p99), and 14.0 and 25 ms without it. Beside eight busy processes it made a short text
/// wait 42 ms instead of 1.
pub(crate) fn pool_options(keeps_order: bool) -> PoolOptions {
    let num_cores = std::thread::available_parallelism().map_or(1, usize::from);
    PoolOptions {
        name: "llmserve-prepare",
        num_threads: num_cores.clamp(NUM_THREADS.0, NUM_THREADS.1),
        stack_bytes: STACK_BYTES,
        must_finish: false,
        keeps_order,
    }
}

/// How long prompts take to tokenize.
pub(crate) fn pace_of<'a>(prompts: impl IntoIterator<Item = &'a Prompt>) -> Pace {
    let bytes = prompts.into_iter().map(|prompt| match prompt {
        Prompt::Text { text, .. } => text.len(),
        Prompt::Tokens(_) => 0,
    });
    pace_of_bytes(bytes.sum())
}

pub(crate) fn pace_of_bytes(bytes: usize) -> Pace {
    if bytes > MAX_QUICK_BYTES { Pace::Slow } else { Pace::Quick }
}

/// The threads that prepare requests, and texts that are only to be tokenized.
pub(crate) struct Texts<P> {
    pub(crate) pool: TaskPool<P>,
    pub(crate) shared: Arc<Shared>,
    /// How many may wait before a text alone is refused.
    pub(crate) max_waiting: usize,
}

impl<P> Clone for Texts<P> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), shared: Arc::clone(&self.shared), max_waiting: self.max_waiting }
    }
}

impl<P: Tokenizes> Texts<P> {
    /// The tokens of a text alone.
    pub(crate) fn tokenize(
        &self,
        text: String,
        add_special: bool,
        special: Special,
        listener: Option<Listener>,
    ) -> Job<Vec<TokenId>> {
        self.start(pace_of_bytes(text.len()), listener, move |tokenizer| {
            tokenizer.tokenize(&text, add_special, special)
        })
    }

    /// The bytes of tokens alone.
    pub(crate) fn detokenize(
        &self,
        tokens: Vec<TokenId>,
        render_special: bool,
        listener: Option<Listener>,
    ) -> Job<Vec<u8>> {
        self.start(Pace::Quick, listener, move |tokenizer| tokenizer.detokenize(&tokens, render_special))
    }

    /// Starts work that is not done if nobody waits for it any more.
    fn start<T: Send + 'static>(
        &self,
        pace: Pace,
        listener: Option<Listener>,
        work: impl FnOnce(&Tokenizer<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Job<T> {
        let (result, job) = job(&self.shared, listener);
        if let Some(error) = self.shared.refusal() {
            result.send(Err(error));
        } else if self.pool.num_waiting() >= self.max_waiting {
            result.send(Err(self.shared.queue.full()));
        } else {
            self.pool.push(pace, move |context| {
                if !result.is_cancelled() {
                    result.send(work(&context.tokenizer()));
                }
            });
        }
        job
    }
}
