//! The context of an embedding model.

use super::DecodeError;
use crate::ids::TokenId;

/// The limits of an embedding context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingLimits {
    /// Maximum number of tokens in one input.
    pub context_length: usize,
    /// Maximum number of tokens of inputs that are computed together. A longer input is computed alone.
    pub batch_rows: usize,
    /// Maximum number of inputs that are computed together.
    pub max_sequences: usize,
    /// Size of a vector, or number of scores.
    pub dimensions: usize,
    /// KV cells; 0 for models without a cache.
    pub num_cells: usize,
    /// Compute threads.
    pub num_threads: usize,
}

/// An embedding model's context, driven by its thread. Nothing is kept from one call to the next.
pub trait EmbeddingContext {
    /// The limits of the context.
    fn limits(&self) -> &EmbeddingLimits;

    /// Computes the vectors of several inputs together, and appends them in the order of the inputs,
    /// `dimensions` values each, as the model gives them: not normalised.
    ///
    /// Inputs are within the limits and have a token at least; more than `batch_rows` tokens come only as
    /// a single input.
    ///
    /// # Errors
    /// [`DecodeError`]; then nothing usable was appended.
    fn embed(&mut self, inputs: &[&[TokenId]], vectors: &mut Vec<f32>) -> Result<(), DecodeError>;
}
