//! The requests of an embedding model and its answers.

use crate::ids::TokenId;
use crate::request::{Prompt, Special};

/// A request for the vectors of some inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingRequest {
    /// The inputs, one at least. Each must have a token, and no more than the context length.
    pub inputs: Vec<Prompt>,
    /// Keep only this many leading values of each vector; `None`: all. For models that were trained
    /// for it (Matryoshka Representation Learning, <https://arxiv.org/abs/2205.13147>).
    pub dimensions: Option<usize>,
    /// Scale each vector to length 1 (Euclidean) after cutting it.
    pub normalize: bool,
}

impl EmbeddingRequest {
    /// Whole, normalised vectors of texts, each with what the vocabulary puts around a text.
    #[must_use]
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let prompt =
            |text: T| Prompt::Text { text: text.into(), add_special: true, special: Special::Control };
        Self { inputs: texts.into_iter().map(prompt).collect(), dimensions: None, normalize: true }
    }

    /// Whole, normalised vectors of token ids, which are used unchanged.
    #[must_use]
    pub fn tokens(inputs: impl IntoIterator<Item = Vec<TokenId>>) -> Self {
        let inputs = inputs.into_iter().map(Prompt::Tokens).collect();
        Self { inputs, dimensions: None, normalize: true }
    }
}

/// The vectors of a request's inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// Values of one vector.
    pub dimensions: usize,
    /// All vectors, one after the other, in the order of the inputs.
    pub values: Vec<f32>,
    /// Tokens of each input.
    pub num_tokens: Vec<usize>,
}

impl Embeddings {
    /// The vectors, in the order of the inputs.
    pub fn vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimensions.max(1))
    }
}

/// Cuts a vector and scales it as a request wants it; `None` if it has no usable numbers. A vector of
/// zeros has no direction and is left unchanged.
pub(super) fn finish(
    vector: &[f32],
    dimensions: usize,
    normalize: bool,
    values: &mut Vec<f32>,
) -> Option<()> {
    let vector = vector.get(..dimensions)?;
    let square: f64 = vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
    if !square.is_finite() {
        return None;
    }
    let scale = if normalize && square > 0.0 { 1.0 / square.sqrt() } else { 1.0 };
    values.extend(vector.iter().map(|value| (f64::from(*value) * scale) as f32));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(vector: &[f32], dimensions: usize, normalize: bool) -> Option<Vec<f32>> {
        let mut values = Vec::new();
        finish(vector, dimensions, normalize, &mut values).map(|()| values)
    }

    #[test]
    fn vectors_are_cut_and_then_scaled() {
        assert_eq!(finished(&[3.0, 4.0, 12.0], 3, false), Some(vec![3.0, 4.0, 12.0]));
        assert_eq!(finished(&[3.0, 4.0, 12.0], 2, true), Some(vec![0.6, 0.8]));
        assert_eq!(finished(&[0.0, 0.0], 2, true), Some(vec![0.0, 0.0]));
    }

    #[test]
    fn sizes_that_f32_cannot_square_are_scaled_too() {
        assert_eq!(finished(&[1e30, 0.0], 2, true), Some(vec![1.0, 0.0]));
        assert_eq!(finished(&[1e-30, 0.0], 2, true), Some(vec![1.0, 0.0]));
    }

    #[test]
    fn what_is_no_number_is_none() {
        assert_eq!(finished(&[f32::NAN, 1.0], 2, true), None);
        assert_eq!(finished(&[f32::INFINITY, 1.0], 2, false), None);
        // Cut off, it does no harm.
        assert_eq!(finished(&[2.0, f32::NAN], 1, true), Some(vec![1.0]));
    }
}
