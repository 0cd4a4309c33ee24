//! The requests of an embedding model and its answers.

use crate::ids::TokenId;
use crate::request::{Prompt, Special};
use crate::tenant::Tenant;

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
    /// Whose it is.
    pub tenant: Tenant,
}

impl EmbeddingRequest {
    /// Whole, normalised vectors of texts, each with what the vocabulary puts around a text.
    #[must_use]
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let prompt =
            |text: T| Prompt::Text { text: text.into(), add_special: true, special: Special::Control };
        Self::of(texts.into_iter().map(prompt).collect())
    }

    /// Whole, normalised vectors of token ids, which are used unchanged.
    #[must_use]
    pub fn tokens(inputs: impl IntoIterator<Item = Vec<TokenId>>) -> Self {
        Self::of(inputs.into_iter().map(Prompt::Tokens).collect())
    }

    fn of(inputs: Vec<Prompt>) -> Self {
        Self { inputs, dimensions: None, normalize: true, tenant: Tenant::default() }
    }
}

/// A request for the scores of some pairs of a query and a document.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingRequest {
    /// The pairs, one at least. Each must have no more tokens than the context length.
    pub pairs: Vec<RankingInput>,
    /// Cut a document that is too long, instead of refusing the request.
    pub truncate: bool,
    /// The scores as the model's head gives them; by default from 0 to 1, by the logistic function.
    pub raw_scores: bool,
    /// Whose it is.
    pub tenant: Tenant,
}

/// What is scored.
#[derive(Debug, Clone, PartialEq)]
pub enum RankingInput {
    /// Two texts, which are joined as the vocabulary joins them.
    Pair {
        /// What is asked.
        query: String,
        /// What may answer it.
        document: String,
    },
    /// Both in one, as a model's own template joins them.
    Joined(Prompt),
}

/// The vectors of a request's inputs; of a [`RankingRequest`], a score each.
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

/// What a model's values for an input become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// They stay as they are.
    Raw,
    /// A vector of length 1. One of zeros has no direction and is left unchanged.
    Normalized,
    /// Scores from 0 to 1.
    Logistic,
}

/// Cuts a vector and makes of it what a request wants; `None` if it has no usable numbers.
pub(super) fn finish(vector: &[f32], dimensions: usize, how: Finish, values: &mut Vec<f32>) -> Option<()> {
    let vector = vector.get(..dimensions)?;
    let square: f64 = vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
    if !square.is_finite() {
        return None;
    }
    match how {
        Finish::Raw => values.extend_from_slice(vector),
        Finish::Normalized => {
            let scale = if square > 0.0 { 1.0 / square.sqrt() } else { 1.0 };
            values.extend(vector.iter().map(|value| (f64::from(*value) * scale) as f32));
        }
        Finish::Logistic => {
            values.extend(vector.iter().map(|value| (1.0 / (1.0 + f64::from(-*value).exp())) as f32));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(vector: &[f32], dimensions: usize, how: Finish) -> Option<Vec<f32>> {
        let mut values = Vec::new();
        finish(vector, dimensions, how, &mut values).map(|()| values)
    }

    #[test]
    fn vectors_are_cut_and_then_scaled() {
        assert_eq!(finished(&[3.0, 4.0, 12.0], 3, Finish::Raw), Some(vec![3.0, 4.0, 12.0]));
        assert_eq!(finished(&[3.0, 4.0, 12.0], 2, Finish::Normalized), Some(vec![0.6, 0.8]));
        assert_eq!(finished(&[0.0, 0.0], 2, Finish::Normalized), Some(vec![0.0, 0.0]));
    }

    #[test]
    fn sizes_that_f32_cannot_square_are_scaled_too() {
        assert_eq!(finished(&[1e30, 0.0], 2, Finish::Normalized), Some(vec![1.0, 0.0]));
        assert_eq!(finished(&[1e-30, 0.0], 2, Finish::Normalized), Some(vec![1.0, 0.0]));
    }

    #[test]
    fn scores_are_from_0_to_1() {
        let scores = [-1000.0, -2.0, 0.0, 2.0, 1000.0];
        assert_eq!(
            finished(&scores, 5, Finish::Logistic),
            Some(vec![0.0, 0.119_202_92, 0.5, 0.880_797_1, 1.0])
        );
        assert_eq!(finished(&scores, 1, Finish::Raw), Some(vec![-1000.0]));
    }

    #[test]
    fn what_is_no_number_is_none() {
        assert_eq!(finished(&[f32::NAN, 1.0], 2, Finish::Normalized), None);
        assert_eq!(finished(&[f32::INFINITY, 1.0], 2, Finish::Raw), None);
        // Cut off, it does no harm.
        assert_eq!(finished(&[2.0, f32::NAN], 1, Finish::Normalized), Some(vec![1.0]));
    }
}
