//! What an embedding model's context can compute.

use super::DecodeError;
use crate::ids::TokenId;

/// What an embedding context can hold and compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingLimits {
    /// The most tokens that one input may have.
    pub context_length: usize,
    /// The most tokens of the inputs that are computed together. A longer input is computed alone.
    pub batch_rows: usize,
    /// The most inputs that are computed together.
    pub max_sequences: usize,
    /// Size of a vector.
    pub dimensions: usize,
    /// KV cells; 0 for models without a cache.
    pub num_cells: usize,
    /// Compute threads.
    pub num_threads: usize,
}

/// An embedding model's context as its thread drives it. Nothing is kept from one call to the next.
pub trait EmbeddingContext {
    /// What it can hold and compute.
    fn limits(&self) -> &EmbeddingLimits;

    /// Computes the vectors of several inputs together, and appends them in the order of the inputs,
    /// `dimensions` values each, as the model gives them: not normalised.
    ///
    /// Inputs are within the limits and have a token at least; more than `batch_rows` tokens come only as
    /// a single input.
    ///
    /// # Errors
    /// [`DecodeError`]; then nothing of use was appended.
    fn embed(&mut self, inputs: &[&[TokenId]], vectors: &mut Vec<f32>) -> Result<(), DecodeError>;
}
