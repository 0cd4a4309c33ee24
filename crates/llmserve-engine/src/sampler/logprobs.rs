//! Log-probabilities: the log-softmax of the raw logits.

use super::pool::Memory;
use super::row::Row;
use super::weight::{ONE, Softmax};
use super::{Scratch, select};
use crate::event::{TokenLogprobs, TokenScore};
use crate::ids::TokenId;

/// How likely `token` is by a row of logits, with the `num_top` likeliest tokens. `None` if no logit is above minus
/// infinity.
pub(crate) fn score(
    logits: &[f32],
    token: TokenId,
    num_top: u32,
    scratch: &mut Scratch,
) -> Option<TokenScore> {
    let id = usize::try_from(token.0).ok()?;
    let logprobs = of_token(Row::new(logits, &mut scratch.row.maxima), id, num_top, &mut scratch.memory)?;
    let own = logits.get(id).copied().unwrap_or(f32::NEG_INFINITY);
    let num_likelier: u32 = logits.iter().map(|&logit| u32::from(logit > own)).sum();
    Some(TokenScore { logprobs, rank: 1 + num_likelier })
}

/// The log-probability of `token` and of the `num_top` likeliest tokens. `None` if no logit is
/// above minus infinity. Tokens of probability 0 are not among the likeliest.
pub(super) fn of_token(
    row: Row<'_>,
    token: usize,
    num_top: u32,
    memory: &mut Memory,
) -> Option<TokenLogprobs> {
    let Memory { maxima, candidates, .. } = memory;
    let (_, max) = row.best()?;
    let log_sum = (row.mass(Softmax::new(max, 1.0)) as f64 / ONE as f64).ln();
    let logprob = |id: usize| {
        let logit = row.logits.get(id).copied().unwrap_or(f32::NEG_INFINITY);
        log_softmax(logit, max, log_sum)
    };
    select::top_k(row, num_top as usize, maxima, candidates);
    select::sort(candidates);
    let top = candidates.iter().map(|candidate| (TokenId(candidate.id() as i32), logprob(candidate.id())));
    Some(TokenLogprobs { logprob: logprob(token), top: top.collect() })
}

/// `logit - max - log_sum`, where the sum is that of the exponentials of `logit - max`.
fn log_softmax(logit: f32, max: f32, log_sum: f64) -> f32 {
    if logit >= max {
        // Also where both are infinite.
        -log_sum as f32
    } else if logit > f32::NEG_INFINITY {
        (f64::from(logit) - f64::from(max) - log_sum) as f32
    } else {
        f32::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn logprobs(logits: &[f32], token: usize, num_top: u32) -> TokenLogprobs {
        let empty = TokenLogprobs { logprob: f32::NAN, top: Vec::new() };
        of_token(Row::new(logits, &mut Vec::new()), token, num_top, &mut Memory::default()).unwrap_or(empty)
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            logits in prop::collection::vec(-60.0f32..60.0, 1..400), token in any::<prop::sample::Index>(),
        ) {
            let token = token.index(logits.len());
            let max = logits.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - f64::from(max)).exp()).sum();
            let expected = f64::from(logits[token]) - f64::from(max) - sum.ln();
            let logprobs = logprobs(&logits, token, 20);
            prop_assert!((f64::from(logprobs.logprob) - expected).abs() < 1e-5);
            prop_assert_eq!(logprobs.top.len(), logits.len().min(20));
            for pair in logprobs.top.windows(2) {
                let [(first, p), (second, q)] = *pair else { return Ok(()); };
                prop_assert!(p > q || (p >= q && logits[first.0 as usize] > logits[second.0 as usize]) || first < second);
            }
        }
    }

    #[test]
    fn ties_go_by_id() {
        let top = logprobs(&[1.0, 2.0, 1.0, 2.0], 0, 3).top;
        let ids: Vec<i32> = top.iter().map(|(token, _)| token.0).collect();
        assert_eq!(ids, [1, 3, 0]);
    }

    #[test]
    fn only_what_is_asked_for() {
        let logprobs = logprobs(&[0.0, 0.0], 1, 0);
        assert!((logprobs.logprob + std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(logprobs.top, []);
    }

    #[test]
    fn infinities_and_nan() {
        let top = logprobs(&[f32::INFINITY, 0.0, f32::NAN, f32::INFINITY], 1, 4);
        assert_eq!(top.logprob.to_bits(), f32::NEG_INFINITY.to_bits());
        let half = -std::f32::consts::LN_2;
        assert_eq!(top.top[..2], [(TokenId(0), half), (TokenId(3), half)]);
        assert_eq!(top.top[2..], [(TokenId(1), f32::NEG_INFINITY)]);
        let nothing = [f32::NAN];
        assert_eq!(of_token(Row::new(&nothing, &mut Vec::new()), 0, 1, &mut Memory::default()), None);
        let far = logprobs(&[f32::MAX, f32::MIN], 1, 2);
        assert!(far.top.iter().all(|(_, logprob)| !logprob.is_nan()));
    }

    #[test]
    fn a_rank_counts_the_likelier_tokens() {
        let logits = [1.0, 3.0, f32::NAN, 2.0, 3.0, f32::NEG_INFINITY];
        let rank = |token| score(&logits, TokenId(token), 1, &mut Scratch::default()).map(|score| score.rank);
        let ranks: Vec<Option<u32>> = [1, 4, 3, 0, 5].map(rank).to_vec();
        assert_eq!(ranks, [Some(1), Some(1), Some(3), Some(4), Some(5)]);
        assert_eq!(score(&[f32::NAN], TokenId(0), 1, &mut Scratch::default()), None);
    }
}
