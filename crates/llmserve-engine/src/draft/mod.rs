//! Drafts: guesses of the next tokens that are verified in one step.

// Each goes with the first use by the engine.
#[allow(dead_code)]
pub(crate) mod acceptance;
#[allow(dead_code)]
pub(crate) mod controller;
#[allow(dead_code)]
mod cost;
#[allow(dead_code)]
mod filter;
#[allow(dead_code)]
pub(crate) mod lookup;
#[allow(dead_code)]
mod method;
#[allow(dead_code)]
mod plan;
#[cfg(test)]
mod simulation;

use crate::ids::TokenId;

/// The most tokens of one draft.
pub const MAX_DRAFT_TOKENS: usize = 8;

/// Guesses how a sequence goes on.
///
/// A draft is only a guess: each token is drawn from the model as without drafting, and a guess is
/// accepted if it equals the draw, so the text does not depend on it.
pub trait Drafter: Send {
    /// At most `max` tokens that may follow `tokens` (prompt and output so far).
    fn draft(&mut self, tokens: &[TokenId], max: usize) -> Vec<TokenId>;
}
