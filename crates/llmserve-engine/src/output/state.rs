//! The output of one sequence: what draws its next token, and what becomes of the token.

use super::draw::Text;
use super::stops::Stops;
use crate::constraint::Constraint;
use crate::detokenizer::Detokenizer;
use crate::error::Error;
use crate::event::{Delta, FinishReason};
use crate::ids::TokenId;
use crate::model::Vocabulary;
use crate::request::GenerationRequest;
use crate::sampler::{Sampled, Sampler};

/// Sampler, constraint, stop rules and detokenizer of one sequence. Its tokens are kept by the sequence
/// and move along with it.
pub(crate) struct Output {
    pub(super) sampler: Sampler,
    pub(super) detokenizer: Detokenizer,
    pub(super) stops: Stops,
    /// `Err` if a panic interrupted work on it: a lost constraint is never ignored.
    pub(super) constraint: Result<Option<Box<Constraint>>, Error>,
    /// A drawn token that the constraint has not accepted yet.
    pub(super) held: Option<Sampled>,
    /// Log-probabilities need a row of logits for each token.
    pub(super) has_logprobs: bool,
    num_prompt: usize,
    /// Maximum number of tokens in prompt and output together.
    max_tokens: usize,
}

impl Output {
    /// The state at the start of the output. Takes time in proportion to the prompt and the stop strings.
    pub(crate) fn new(
        request: &GenerationRequest,
        seed: u64,
        prompt: &Text<'_>,
        max_tokens: usize,
        constraint: Option<Box<Constraint>>,
    ) -> Self {
        let is_json = constraint.as_ref().is_some_and(|constraint| constraint.is_json());
        let stops = Stops::new(&request.stopping, is_json);
        Self {
            sampler: Sampler::new(&request.sampling, seed, request.logprobs, prompt.tokens, |token| {
                prompt.vocabulary.piece(token, true)
            }),
            detokenizer: Detokenizer::after(&request.begun, &stops.strings),
            stops,
            constraint: Ok(constraint),
            held: None,
            has_logprobs: request.logprobs.is_some(),
            num_prompt: prompt.tokens.len(),
            max_tokens,
        }
    }

    /// The most tokens of prompt and output together.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    pub(crate) fn is_constrained(&self) -> bool {
        !matches!(self.constraint, Ok(None))
    }

    /// About how many logits are looked at for the next token.
    pub(crate) fn cost(&self, vocabulary_size: usize) -> usize {
        vocabulary_size * (self.sampler.num_passes() + usize::from(self.is_constrained()))
    }

    /// Whether a drawn token waits for its constraint. Until it is settled there is nothing to decode.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Computes the mask of the next draw ahead of it, or goes on with what a drawn token waits for. An error
    /// stays in the constraint and is reported when the mask is used.
    pub(crate) fn work_ahead(&mut self) {
        let mut constraint = std::mem::replace(&mut self.constraint, Err(Error::Internal));
        if let Ok(Some(constraint)) = &mut constraint
            && let Err(error) = constraint.work_ahead()
        {
            log::debug!("a mask could not be computed: {error}");
        }
        self.constraint = constraint;
    }

    /// How many of the tokens, which are prompt and output, were generated.
    pub(super) fn num_generated(&self, tokens: &[TokenId]) -> usize {
        tokens.len() - self.num_prompt
    }

    /// How many tokens may still be generated.
    pub(super) fn num_left(&self, tokens: &[TokenId]) -> usize {
        self.max_tokens.saturating_sub(tokens.len())
    }

    /// Cuts off of a draft what cannot be accepted: unknown tokens, what the constraint forbids, and what
    /// follows an end of the generation.
    pub(crate) fn cut_draft(&mut self, draft: &mut Vec<TokenId>, vocabulary: &dyn Vocabulary) {
        if draft.is_empty() {
            return;
        }
        let is_token = |token: &TokenId| usize::try_from(token.0).is_ok_and(|id| id < vocabulary.size());
        let ends = |token: &TokenId| vocabulary.is_end_of_generation(*token);
        let len = draft.iter().position(|token| !is_token(token)).unwrap_or(draft.len());
        draft.truncate(draft.iter().position(ends).map_or(len, |end| len.min(end + 1)));
        if let Ok(Some(constraint)) = present(&mut self.constraint) {
            draft.truncate(constraint.num_valid(draft));
        }
    }

    /// Completes a constrained document that its client gave up, if it was begun and if a way is known:
    /// its last output.
    ///
    /// # Errors
    /// Those of [`Self::check`] for the completed document.
    pub(crate) fn close(&mut self, mut text: Text<'_>) -> Result<Delta, Error> {
        let mut delta = Delta::default();
        let left = self.num_left(text.tokens);
        let is_begun = self.num_generated(text.tokens) > 0;
        let Some(constraint) = present(&mut self.constraint)?.filter(|_| is_begun) else {
            return Ok(delta);
        };
        self.held = None;
        if let Some(tail) = constraint.close(left) {
            self.append_tail(&tail, FinishReason::Cancelled, &mut text, &mut delta);
            self.check()?;
        }
        Ok(delta)
    }

    /// Whether the output is whole, as far as that can be said: false for a constrained document that
    /// is not.
    pub(crate) fn is_complete(&mut self) -> bool {
        match present(&mut self.constraint) {
            Ok(None) => true,
            Ok(Some(constraint)) => constraint.is_complete(),
            Err(_) => false,
        }
    }

    /// The check of a constrained output that has ended.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] for what the constraint does not allow, and for a JSON document that
    /// is not whole.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let Some(constraint) = present(&mut self.constraint)? else {
            return Ok(());
        };
        if constraint.is_complete() {
            constraint.check_document()
        } else if constraint.is_json() {
            Err(Error::ConstraintFailed { reason: "no way to complete the document was found" })
        } else {
            Ok(())
        }
    }
}

/// The constraint, if there is one.
pub(super) fn present(
    constraint: &mut Result<Option<Box<Constraint>>, Error>,
) -> Result<Option<&mut Constraint>, Error> {
    constraint.as_mut().map(Option::as_deref_mut).map_err(|lost| lost.clone())
}
