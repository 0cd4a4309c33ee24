//! Draws tokens from logits.
//!
//! The order is: penalties and bias, a constraint's mask, bans, temperature, truncation (`top_k`, `top_p`,
//! `min_p`), draw.
//! A draw depends on the logits, the sequence's history, its parameters and its key (seed, choice
//! index, number of generated tokens), and on nothing else: neither on the batch it ran in, nor on the
//! thread.

mod bans;
mod draw;
mod logprobs;
mod ngram;
mod penalties;
mod row;
mod select;
#[cfg(test)]
mod tests;
mod truncation;
mod weight;

pub use self::bans::Bans;
use self::draw::DrawKey;
pub(crate) use self::logprobs::score;
use self::ngram::NgramBans;
use self::penalties::Penalties;
use self::row::Row;
pub(crate) use self::select::argmax;
use self::truncation::{Memory, Truncation};
use self::weight::Softmax;
use crate::error::Error;
use crate::event::TokenLogprobs;
use crate::ids::TokenId;
use crate::request::SamplingParams;

/// A sum of all weights takes as long as this many passes for the largest logit.
const PASSES_OF_SUM: usize = 8;
/// The cost of [`score`], in such passes.
pub(crate) const PASSES_OF_SCORE: usize = 3 + PASSES_OF_SUM;

/// Working memory that sequences share: one for each thread that draws. It grows to the size of the
/// vocabulary at first use and keeps nothing between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The largest logit of each block of the row at hand.
    maxima: Vec<f32>,
    memory: Memory,
    changes: Changes,
}

/// A row that differs from what the model gave.
#[derive(Debug, Default)]
struct Changes {
    logits: Vec<f32>,
    undo: Vec<(TokenId, f32)>,
    repeats: Vec<TokenId>,
}

/// A drawn token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: TokenId,
    /// The token's log-probability and alternatives, if they were requested.
    pub logprobs: Option<TokenLogprobs>,
}

/// The sampling state of one sequence: its parameters and its history.
#[derive(Debug, Clone)]
pub struct Sampler {
    temperature: f32,
    truncation: Truncation,
    key: DrawKey,
    num_top_logprobs: Option<u32>,
    penalties: Option<Penalties>,
    ngrams: Option<NgramBans>,
    /// Finite biases.
    bias: Vec<(TokenId, f32)>,
    /// Tokens with a bias of minus infinity.
    banned: Vec<TokenId>,
    num_generated: usize,
}

impl Sampler {
    /// A sampler at the start of the output.
    ///
    /// `params` are those of a validated request, with `seed` in place of their own. With
    /// `logprobs`, each token comes with its log-probability and that many alternatives. The
    /// `prompt` is history for the repetition penalty and the n-gram rule.
    #[must_use]
    pub fn new(params: &SamplingParams, seed: u64, logprobs: Option<u32>, prompt: &[TokenId]) -> Self {
        let (banned, bias): (Vec<_>, Vec<_>) =
            params.logit_bias.iter().copied().partition(|(_, amount)| *amount <= f32::NEG_INFINITY);
        let size = params.no_repeat_ngram_size;
        Self {
            temperature: params.temperature,
            truncation: Truncation::new(params),
            key: DrawKey::new(seed, params.choice_index),
            num_top_logprobs: logprobs,
            penalties: Penalties::new(params, prompt),
            ngrams: (size > 0).then(|| NgramBans::new(size, prompt)),
            bias,
            banned: banned.into_iter().map(|(token, _)| token).collect(),
            num_generated: 0,
        }
    }

    /// Draws the token at the position after the generated ones. Changes nothing: the same call
    /// gives the same token until [`Sampler::accept`].
    ///
    /// NaN logits count as minus infinity. Bans that would leave nothing are lifted for this
    /// token: first those of the n-gram rule, then biases of minus infinity, then `bans.tokens`. A
    /// constraint's mask (`bans.allowed`) is never lifted.
    ///
    /// # Errors
    /// [`Error::InvalidLogits`] if every logit that may be drawn is NaN or minus infinity.
    pub fn sample(&self, logits: &[f32], bans: Bans<'_>, scratch: &mut Scratch) -> Result<Sampled, Error> {
        let id = self.draw(logits, bans, scratch).ok_or(Error::InvalidLogits)?;
        let logprobs = self.num_top_logprobs.and_then(|num_top| {
            let Scratch { maxima, memory, .. } = scratch;
            logprobs::of_token(Row::new(logits, maxima), id, num_top, memory)
        });
        Ok(Sampled { token: token_id(id), logprobs })
    }

    fn draw(&self, logits: &[f32], bans: Bans<'_>, scratch: &mut Scratch) -> Option<usize> {
        let is_free = self.leaves_logits_alone();
        if is_free && self.is_greedy() {
            let (best, _) = argmax(logits)?;
            // A ban matters to a greedy draw only if it hits the best token.
            if bans.allows(token_id(best)) {
                return Some(best);
            }
        }
        let Scratch { maxima, memory, changes } = scratch;
        let (row, (best, max)) = if is_free && bans.tokens.is_empty() && bans.allowed.is_none() {
            let row = Row::new(logits, maxima);
            (row, row.best()?)
        } else {
            self.adjust(logits, bans, changes, maxima)?
        };
        if self.is_greedy() {
            return Some(best);
        }
        let softmax = Softmax::new(max, self.temperature);
        let bits = self.key.bits(self.num_generated);
        Some(self.truncation.draw(row, softmax, bits, memory))
    }

    /// A copy of the logits with penalties, bias and bans, and the index and value of its largest.
    fn adjust<'s>(
        &self,
        logits: &[f32],
        bans: Bans<'_>,
        changes: &'s mut Changes,
        maxima: &'s mut Vec<f32>,
    ) -> Option<(Row<'s>, (usize, f32))> {
        let Changes { logits: adjusted, undo, repeats } = changes;
        adjusted.clear();
        adjusted.extend_from_slice(logits);
        if let Some(penalties) = &self.penalties {
            penalties.apply(adjusted);
        }
        penalties::apply_bias(&self.bias, adjusted);
        if let Some(words) = bans.allowed {
            bans::apply_mask(words, adjusted);
        }
        repeats.clear();
        repeats.extend(self.ngrams.iter().flat_map(NgramBans::banned));
        bans::apply([bans.tokens, &self.banned, repeats], adjusted, undo, maxima)
    }

    /// The cost of a draw, in passes for the largest logit of a row.
    pub(crate) fn num_passes(&self) -> usize {
        let sums = usize::from(!self.is_greedy() && !self.truncation.has_top_k())
            + usize::from(self.num_top_logprobs.is_some());
        2 + usize::from(!self.leaves_logits_alone()) + PASSES_OF_SUM * sums - usize::from(self.is_greedy())
    }

    fn leaves_logits_alone(&self) -> bool {
        self.penalties.is_none() && self.ngrams.is_none() && self.bias.is_empty() && self.banned.is_empty()
    }

    fn is_greedy(&self) -> bool {
        self.temperature <= 0.0 || self.truncation.is_greedy()
    }

    /// Adds a drawn or forced token to the history.
    pub fn accept(&mut self, token: TokenId) {
        if let Some(penalties) = &mut self.penalties {
            penalties.push(token);
        }
        if let Some(ngrams) = &mut self.ngrams {
            ngrams.push(token);
        }
        self.num_generated += 1;
    }

    /// The number of accepted tokens.
    #[must_use]
    pub fn num_generated(&self) -> usize {
        self.num_generated
    }
}

fn token_id(id: usize) -> TokenId {
    TokenId(id as i32)
}
