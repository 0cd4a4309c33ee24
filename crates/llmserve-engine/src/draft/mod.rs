//! Drafts: guesses of the next tokens that are verified in one step.

mod acceptance;
mod candidate;
mod controller;
mod cost;
mod head;
mod lookup;
mod plan;
mod sequence;
#[cfg(test)]
mod simulation;

pub use head::Head;

pub(crate) use candidate::DraftCandidate;
pub(crate) use controller::{DraftController, DraftStep};
pub(crate) use sequence::SequenceDrafts;

use crate::ids::TokenId;
use crate::types::{DraftMethod, Drafting, MAX_DRAFT_TOKENS};

/// Guesses how a sequence continues.
///
/// A draft is only a guess: each token is drawn from the model as without drafting, and a guess is
/// accepted if it equals the draw, so the text does not depend on it.
pub trait Drafter: Send {
    /// At most `max` tokens that may follow `tokens` (prompt and output so far).
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId>;
}
