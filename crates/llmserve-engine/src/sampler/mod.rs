//! Draws tokens from logits.
//!
//! A request chooses the order of its samplers ([`crate::SamplerKind`]). Rules on tokens that have occurred, where
//! they come first, look at whole rows, as the bias, a constraint's mask and the bans do after them; the rest of the
//! chain looks at candidates.
//!
//! - `chain`: the order. `history`: what it keeps of a text. `pool`: the candidates. A sampler is a module with its
//!   formula: `penalties`, `dry`, `temperature`, `top_n_sigma`, `typical`, `xtc`, `mirostat`, `infill`,
//!   `adaptive`; those that only cut the
//!   order of the candidates (`top_k`, `top_p`, `min_p`) are methods of the pool.
//! - `row`, `select`, `weight`: finding and weighing the best of a vocabulary. `draw`: random numbers.
//!
//! A draw depends on the logits, the sequence's history, its parameters and its key (seed, choice
//! index, number of generated tokens), and on nothing else: neither on the batch it ran in, nor on the
//! thread.

mod adaptive;
mod bans;
mod chain;
mod draw;
mod dry;
mod entropy;
mod history;
mod infill;
mod logprobs;
mod mirostat;
mod ngram;
mod penalties;
mod pool;
mod row;
mod select;
mod sequences;
mod temperature;
#[cfg(test)]
mod tests;
mod top_n_sigma;
mod typical;
mod weight;
mod xtc;

pub use self::bans::Bans;
use self::chain::{Chain, Position};
use self::draw::DrawKey;
use self::history::History;
pub use self::infill::Words;
pub(crate) use self::logprobs::score;
use self::ngram::NgramBans;
use self::pool::{Memory, Pool};
use self::row::Row;
pub(crate) use self::select::argmax;
use self::sequences::SequenceBans;
use crate::error::Error;
use crate::event::TokenLogprobs;
use crate::ids::TokenId;
use crate::sampling::SamplingParams;

/// A sum of all weights takes as long as this many passes for the largest logit.
const PASSES_OF_SUM: usize = 8;
/// The cost of [`score`], in such passes.
pub(crate) const PASSES_OF_SCORE: usize = 3 + PASSES_OF_SUM;

/// Working memory that sequences share: one for each thread that draws. It grows to the size of the
/// vocabulary at first use and keeps nothing between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    row: RowMemory,
    memory: Memory,
    repetitions: dry::Memory,
}

/// For the row at hand.
#[derive(Debug, Default)]
struct RowMemory {
    /// The row where it differs from what the model gave.
    changed: Vec<f32>,
    /// The largest logit of each block.
    maxima: Vec<f32>,
    undo: Vec<(TokenId, f32)>,
    repeats: Vec<TokenId>,
    sequences: Vec<TokenId>,
}

/// A drawn token.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: TokenId,
    /// The token's log-probability and alternatives, if they were requested.
    pub logprobs: Option<TokenLogprobs>,
    /// How surprising it was among the tokens that were left, in bits, and before adaptive-p changed them. `None` for
    /// a token that was not drawn.
    pub surprise: Option<f64>,
}

impl Sampled {
    /// A token that needed no draw.
    #[must_use]
    pub fn forced(token: TokenId) -> Self {
        Self { token, logprobs: None, surprise: None }
    }
}

/// The sampling state of one sequence: its parameters and its history.
#[derive(Debug, Clone)]
pub struct Sampler {
    chain: Chain,
    history: History,
    key: DrawKey,
    num_top_logprobs: Option<u32>,
    /// Finite biases.
    bias: Vec<(TokenId, f32)>,
    /// Tokens with a bias of minus infinity, and banned sequences of one token.
    banned: Vec<TokenId>,
    /// Bits of the only tokens that may be drawn, as in [`Bans::allowed`].
    allowed: Option<Vec<u32>>,
    num_generated: usize,
}

impl Sampler {
    /// A sampler at the start of the output.
    ///
    /// `params` are those of a validated request, with `seed` in place of their own. With
    /// `logprobs`, each token comes with its log-probability and that many alternatives. The
    /// `prompt` is history for the rules on tokens that have occurred; `piece` gives the bytes of a token, for DRY.
    #[must_use]
    pub fn new<'a>(
        params: &SamplingParams,
        seed: u64,
        logprobs: Option<u32>,
        prompt: &[TokenId],
        piece: impl Fn(TokenId) -> &'a [u8],
    ) -> Self {
        let (banned, bias): (Vec<_>, Vec<_>) =
            params.logit_bias.iter().copied().partition(|(_, amount)| *amount <= f32::NEG_INFINITY);
        let single = params.banned_sequences.iter().filter_map(|sequence| match sequence[..] {
            [token] => Some(token),
            _ => None,
        });
        let banned = banned.into_iter().map(|(token, _)| token).chain(single).collect();
        let history = History::new(params, prompt, piece);
        Self {
            chain: Chain::new(params, &history),
            history,
            key: DrawKey::new(seed, params.choice_index),
            num_top_logprobs: logprobs,
            bias,
            banned,
            allowed: params.allowed_token_ids.as_deref().map(bans::mask_of),
            num_generated: 0,
        }
    }

    /// Draws the token at the position after the generated ones. Changes nothing: the same call
    /// gives the same token until [`Sampler::accept`].
    ///
    /// NaN logits count as minus infinity. Bans that would leave nothing are lifted for this
    /// token: first those of the n-gram rule, then those of sequences, then biases of minus infinity, then
    /// `bans.tokens`. A constraint's mask (`bans.allowed`) and the list of allowed tokens are never lifted.
    ///
    /// # Errors
    /// [`Error::InvalidLogits`] if every logit that may be drawn is NaN or minus infinity.
    pub fn sample(
        &self,
        logits: &[f32],
        bans: Bans<'_>,
        words: Words<'_>,
        scratch: &mut Scratch,
    ) -> Result<Sampled, Error> {
        let (id, surprise) = self.draw(logits, bans, words, scratch).ok_or(Error::InvalidLogits)?;
        let logprobs = self.num_top_logprobs.and_then(|num_top| {
            let Scratch { row, memory, .. } = scratch;
            logprobs::of_token(Row::new(logits, &mut row.maxima), id, num_top, memory)
        });
        Ok(Sampled { token: token_id(id), logprobs, surprise: Some(surprise) })
    }

    /// The token and its surprise.
    fn draw(
        &self,
        logits: &[f32],
        bans: Bans<'_>,
        words: Words<'_>,
        scratch: &mut Scratch,
    ) -> Option<(usize, f64)> {
        let is_free = self.leaves_logits_alone();
        let is_greedy = self.chain.is_greedy();
        if is_free && is_greedy {
            let (best, _) = argmax(logits)?;
            // A ban matters to a greedy draw only if it hits the best token.
            if bans.allows(token_id(best)) {
                return Some((best, 0.0));
            }
        }
        let Scratch { row, memory, repetitions } = scratch;
        let (row, (best, max)) = if is_free && bans.tokens.is_empty() && bans.allowed.is_none() {
            let row = Row::new(logits, &mut row.maxima);
            (row, row.best()?)
        } else {
            self.adjust(logits, bans, row, repetitions)?
        };
        if is_greedy {
            return Some((best, 0.0));
        }
        let mut pool = Pool::new(row, max, self.chain.keep, memory);
        let Self { history, key, num_generated, .. } = self;
        let position = Position { history, key: *key, num_generated: *num_generated, words };
        self.chain.apply(&mut pool, position, repetitions);
        let hit = pool.draw(key.bits(*num_generated));
        Some((hit.id, hit.surprise))
    }

    /// A copy of the logits with the chain's head, bias and bans, and the index and value of its largest.
    fn adjust<'s>(
        &self,
        logits: &[f32],
        bans: Bans<'_>,
        memory: &'s mut RowMemory,
        repetitions: &mut dry::Memory,
    ) -> Option<(Row<'s>, (usize, f32))> {
        let RowMemory { changed, maxima, undo, repeats, sequences } = memory;
        changed.clear();
        changed.extend_from_slice(logits);
        for &adjuster in &self.chain.head {
            self.history.adjust_row(adjuster, changed, repetitions);
        }
        penalties::apply_bias(&self.bias, changed);
        for words in [self.allowed.as_deref(), bans.allowed].into_iter().flatten() {
            bans::apply_mask(words, changed);
        }
        repeats.clear();
        repeats.extend(self.history.ngrams.iter().flat_map(NgramBans::banned));
        sequences.clear();
        sequences.extend(self.history.sequences.iter().flat_map(SequenceBans::banned));
        bans::apply([bans.tokens, &self.banned, sequences, repeats], changed, undo, maxima)
    }

    /// The cost of a draw, in passes for the largest logit of a row.
    pub(crate) fn num_passes(&self) -> usize {
        let sums = self.chain.num_sums() + usize::from(self.num_top_logprobs.is_some());
        2 + usize::from(!self.leaves_logits_alone()) + PASSES_OF_SUM * sums
            - usize::from(self.chain.is_greedy())
    }

    fn leaves_logits_alone(&self) -> bool {
        self.chain.head.is_empty()
            && self.history.ngrams.is_none()
            && self.history.sequences.as_ref().is_none_or(|sequences| sequences.banned().next().is_none())
            && self.bias.is_empty()
            && self.banned.is_empty()
            && self.allowed.is_none()
    }

    /// Adds a drawn or forced token, which has these bytes, to the history.
    pub fn accept(&mut self, sampled: &Sampled, piece: &[u8]) {
        self.history.push(sampled.token, piece, sampled.surprise);
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
