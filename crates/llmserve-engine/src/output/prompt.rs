//! Log-probabilities of a prompt's tokens: each comes from the row of the token before it.

use std::ops::Range;

use crate::error::Error;
use crate::event::{PromptToken, TokenScore};
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::sampler::{self, PASSES_OF_SCORE, Scratch};

/// How far a prompt whose log-probabilities are requested has been scored.
#[derive(Debug)]
pub(crate) struct PromptScores {
    num_top: u32,
    /// Whether the first token was handed out, which no row scores.
    has_begun: bool,
    /// The positions whose rows are still to be scored.
    positions: Range<usize>,
}

/// A row of logits, and the token that follows it in the prompt.
pub(crate) struct ScoredRow<'a> {
    /// `None` if the model gave no logits.
    pub(crate) logits: Option<&'a [f32]>,
    pub(crate) token: TokenId,
    pub(crate) num_top: u32,
}

impl PromptScores {
    pub(crate) fn new(num_top: u32, num_prompt: usize) -> Self {
        Self { num_top, has_begun: false, positions: 0..num_prompt.saturating_sub(1) }
    }

    /// The positions whose rows are still to be scored. Cells of earlier ones may come from anywhere.
    pub(crate) fn positions(&self) -> Range<usize> {
        self.positions.clone()
    }

    /// The first token, if it was not handed out yet.
    pub(crate) fn first(&mut self, prompt: &[TokenId], vocabulary: &dyn Vocabulary) -> Option<PromptToken> {
        let id = *prompt.first().filter(|_| !self.has_begun)?;
        self.has_begun = true;
        Some(PromptToken { id, bytes: vocabulary.piece(id, false).to_vec(), score: None })
    }

    /// The rows of the next positions, in order, as what is scored there.
    pub(crate) fn rows<'a>(
        &self,
        tokens: &[TokenId],
        logits: impl Iterator<Item = Option<&'a [f32]>>,
    ) -> impl Iterator<Item = ScoredRow<'a>> {
        let num_top = self.num_top;
        let next = tokens[1..][self.positions()].iter();
        next.zip(logits).map(move |(&token, logits)| ScoredRow { logits, token, num_top })
    }

    /// The next tokens with the scores of [`Self::rows`].
    pub(crate) fn give(
        &mut self,
        tokens: &[TokenId],
        scores: Vec<TokenScore>,
        vocabulary: &dyn Vocabulary,
    ) -> Vec<PromptToken> {
        let next = tokens[1..][self.positions()].iter();
        self.positions.start += scores.len();
        let token = |(&id, score)| PromptToken {
            id,
            bytes: vocabulary.piece(id, false).to_vec(),
            score: Some(score),
        };
        next.zip(scores).map(token).collect()
    }
}

impl ScoredRow<'_> {
    /// About how many logits are looked at.
    pub(crate) fn cost(&self) -> usize {
        PASSES_OF_SCORE * self.logits.map_or(0, <[f32]>::len)
    }

    /// How likely the token was.
    ///
    /// # Errors
    /// [`Error::InvalidLogits`] for a row without any number.
    pub(crate) fn score(&self, scratch: &mut Scratch) -> Result<TokenScore, Error> {
        let score = self.logits.and_then(|logits| sampler::score(logits, self.token, self.num_top, scratch));
        score.ok_or(Error::InvalidLogits)
    }
}
