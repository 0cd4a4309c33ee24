//! How the next tokens of a request are guessed.

use super::error::Error;

/// Maximum number of tokens in one draft.
pub const MAX_DRAFT_TOKENS: usize = 8;

/// How the next tokens of a request are guessed. The text is the same as without drafting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drafting {
    /// Where the guesses come from.
    pub method: DraftMethod,
    /// Maximum number of tokens in one draft, 1 to [`MAX_DRAFT_TOKENS`].
    pub draft_len: usize,
    /// Whether drafts are shortened or skipped when they do not pay off. If not, every draft has the full
    /// length, as far as there is room.
    pub adaptive: bool,
}

/// Where guesses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftMethod {
    /// The model's own head for multi-token prediction (MTP), which is passed with the request
    /// ([`crate::Submission::head`]).
    Head,
    /// The tokens that followed the last tokens at an earlier place in prompt or output.
    PromptLookup,
}

impl Drafting {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if (1..=MAX_DRAFT_TOKENS).contains(&self.draft_len) {
            return Ok(());
        }
        let reason = format!("must be from 1 to {MAX_DRAFT_TOKENS}, got {}", self.draft_len);
        let limit = if self.draft_len == 0 { 1 } else { MAX_DRAFT_TOKENS };
        Err(Error::beyond("draft_len", limit as f64, reason))
    }
}
