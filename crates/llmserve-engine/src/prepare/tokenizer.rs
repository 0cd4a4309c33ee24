//! Texts to tokens and back, on threads whose stack no text can overflow.

use super::marked;
use crate::error::Error;
use crate::ids::TokenId;
use crate::job::JobSender;
use crate::model::Vocabulary;
use crate::request::{Prompt, Special};
use crate::shared::Shared;

/// Stack of a thread that tokenizes; the pages are only touched when needed.
pub(crate) const STACK_BYTES: usize = 256 << 20;
/// Stack for each byte of a text. Many of llama.cpp's pre-tokenizers use `std::regex`, which recurses
/// for each character of a match: a long run of letters would overflow any fixed stack.
const STACK_PER_BYTE: usize = 1 << 10;

/// A vocabulary, and the length that its texts must not exceed.
#[derive(Clone, Copy)]
pub(crate) struct Tokenizer<'a> {
    pub(crate) vocabulary: &'a dyn Vocabulary,
    /// In tokens.
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

    pub(crate) fn detokenize(&self, tokens: &[TokenId], render_special: bool) -> Result<Vec<u8>, Error> {
        self.check_tokens("tokens", tokens)?;
        Ok(tokens.iter().flat_map(|&token| self.vocabulary.piece(token, render_special)).copied().collect())
    }

    /// Refuses ids that are none of the vocabulary's.
    pub(crate) fn check_tokens(&self, field: &'static str, tokens: &[TokenId]) -> Result<(), Error> {
        match self.unknown_token(tokens) {
            None => Ok(()),
            Some(reason) => Err(Error::InvalidParameter { field, reason }),
        }
    }

    /// What is wrong with the first id that is none of the vocabulary's.
    pub(crate) fn unknown_token(&self, tokens: &[TokenId]) -> Option<String> {
        let size = self.vocabulary.size();
        let unknown = tokens.iter().find(|token| usize::try_from(token.0).map_or(true, |id| id >= size))?;
        Some(format!("token {} is outside the vocabulary of {size} tokens", unknown.0))
    }
}

/// Tokenizing or its reverse alone, for a client.
pub(crate) enum TokenJob {
    Tokenize { text: String, add_special: bool, special: Special, result: JobSender<Vec<TokenId>> },
    Detokenize { tokens: Vec<TokenId>, render_special: bool, result: JobSender<Vec<u8>> },
}

impl TokenJob {
    /// Does the work, unless nobody waits for it any more.
    pub(crate) fn run(self, tokenizer: &Tokenizer<'_>, shared: &Shared) {
        if let Some(error) = shared.refusal() {
            return self.refuse(error);
        }
        match self {
            Self::Tokenize { text, add_special, special, result } => {
                if !result.is_cancelled() {
                    result.send(tokenizer.tokenize(&text, add_special, special));
                }
            }
            Self::Detokenize { tokens, render_special, result } => {
                if !result.is_cancelled() {
                    result.send(tokenizer.detokenize(&tokens, render_special));
                }
            }
        }
    }

    /// Answers work that was not taken.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Tokenize { result, .. } => result.send(Err(error)),
            Self::Detokenize { result, .. } => result.send(Err(error)),
        }
    }
}

/// Tokenizing a large prompt must not take a core from the compute threads, which wait for each
/// other several hundred times a step. On Linux the call is for the calling thread only.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        log::debug!("the priority of a prepare thread was not lowered: {error}");
    }
}
