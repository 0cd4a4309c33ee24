//! What the samplers keep of a sequence's text.

use super::adaptive::Adaptive;
use super::dry::{self, Dry};
use super::mirostat::Mirostat;
use super::ngram::NgramBans;
use super::penalties::Penalties;
use super::pool::Pool;
use super::select::Candidate;
use super::sequences::SequenceBans;
use crate::ids::TokenId;
use crate::sampling::SamplingParams;

/// A rule that changes the logits of tokens that have occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adjuster {
    Penalties,
    Dry,
}

/// The state of one sequence; what is off is `None`.
#[derive(Debug, Clone)]
pub(super) struct History {
    penalties: Option<Penalties>,
    dry: Option<Dry>,
    pub(super) ngrams: Option<NgramBans>,
    pub(super) sequences: Option<SequenceBans>,
    pub(super) mirostat: Option<Mirostat>,
    pub(super) adaptive: Option<Adaptive>,
}

impl History {
    /// The state at the end of a prompt. `piece` gives the bytes of a token.
    pub(super) fn new<'a>(
        params: &SamplingParams,
        prompt: &[TokenId],
        piece: impl Fn(TokenId) -> &'a [u8],
    ) -> Self {
        let size = params.no_repeat_ngram_size;
        let sequences = params.banned_sequences.iter().map(Vec::as_slice);
        Self {
            penalties: Penalties::new(params, prompt),
            dry: Dry::new(params, prompt, piece),
            ngrams: (size > 0).then(|| NgramBans::new(size, prompt)),
            sequences: SequenceBans::new(sequences.filter(|sequence| sequence.len() > 1)),
            mirostat: Mirostat::new(params.mirostat),
            adaptive: Adaptive::new(params.adaptive),
        }
    }

    /// Whether a rule changes anything.
    pub(super) fn has(&self, adjuster: Adjuster) -> bool {
        match adjuster {
            Adjuster::Penalties => self.penalties.is_some(),
            Adjuster::Dry => self.dry.is_some(),
        }
    }

    /// Changes the logits of a row.
    pub(super) fn adjust_row(&self, adjuster: Adjuster, logits: &mut [f32], memory: &mut dry::Memory) {
        match (adjuster, &self.penalties, &self.dry) {
            (Adjuster::Penalties, Some(penalties), _) => penalties.apply(logits),
            (Adjuster::Dry, _, Some(dry)) => dry.apply(logits, memory),
            (Adjuster::Penalties | Adjuster::Dry, _, _) => {}
        }
    }

    /// Changes the logits of candidates.
    pub(super) fn adjust_pool(&self, adjuster: Adjuster, pool: &mut Pool<'_>, memory: &mut dry::Memory) {
        match (adjuster, &self.penalties, &self.dry) {
            (Adjuster::Penalties, Some(penalties), _) => {
                pool.change(|candidate, logit| penalties.changed(token_of(candidate), logit));
            }
            (Adjuster::Dry, _, Some(dry)) => {
                let amounts = dry.penalties(memory);
                pool.change(|candidate, mut logit| {
                    if let Ok(place) = amounts.binary_search_by_key(&token_of(candidate), |(token, _)| *token)
                    {
                        super::penalties::change(&mut logit, |logit| logit - amounts[place].1);
                    }
                    logit
                });
            }
            (Adjuster::Penalties | Adjuster::Dry, _, _) => {}
        }
    }

    /// Adds a token, which has these bytes; `surprise` if it was drawn.
    pub(super) fn push(&mut self, token: TokenId, piece: &[u8], surprise: Option<f64>) {
        if let Some(penalties) = &mut self.penalties {
            penalties.push(token);
        }
        if let Some(dry) = &mut self.dry {
            dry.push(token, piece);
        }
        if let Some(ngrams) = &mut self.ngrams {
            ngrams.push(token);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.push(token);
        }
        if let (Some(mirostat), Some(surprise)) = (&mut self.mirostat, surprise) {
            mirostat.learn(surprise);
        }
        if let (Some(adaptive), Some(surprise)) = (&mut self.adaptive, surprise) {
            adaptive.learn(surprise);
        }
    }
}

fn token_of(candidate: &Candidate) -> TokenId {
    TokenId(candidate.id() as i32)
}
