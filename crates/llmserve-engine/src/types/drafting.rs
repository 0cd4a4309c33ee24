//! How the next tokens of a request are guessed.

use super::error::Error;

/// The most tokens of one draft.
pub const MAX_DRAFT_TOKENS: usize = 8;

/// How the next tokens of a request are guessed. The text is the same as without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drafting {
    /// Where the guesses come from.
    pub method: DraftMethod,
    /// The most tokens of one draft, 1 to [`MAX_DRAFT_TOKENS`].
    pub draft_len: usize,
    /// Whether drafts get shorter, or rest, where they do not pay. Without, every draft has the full
    /// length, as far as there is room.
    pub adaptive: bool,
}

/// Where guesses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftMethod {
    /// The model's own head for multi-token prediction (MTP), which goes with the request
    /// ([`crate::Submission::head`]).
    Head,
    /// What followed the last tokens where they occurred before, in prompt or output.
    PromptLookup,
}

impl Drafting {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if (1..=MAX_DRAFT_TOKENS).contains(&self.draft_len) {
            return Ok(());
        }
        let reason = format!("must be from 1 to {MAX_DRAFT_TOKENS}, got {}", self.draft_len);
        Err(Error::InvalidParameter { field: "draft_len", reason })
    }
}
