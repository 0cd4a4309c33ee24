//! Locally typical sampling (Meister, Pimentel, Wiher and Cotterell, "Locally Typical Sampling", TACL 2023).
//!
//! Tokens are ordered by `|H - I(x)|`, where `I(x) = -log p(x)` is the surprise and `H = sum of p(x) I(x)` the entropy.
//! The smallest number of them with the probability `p` is kept. The largest logit and the sum of all weights take the
//! same part in `H` and `I`, so that the distances to the likeliest token are enough.

use super::entropy::{distance, mean_distance};
use super::pool::needed;
use super::select::{self, Candidate};
use super::weight::Softmax;

/// Keeps the most typical candidates, and at least `keep`.
pub(super) fn cut(candidates: &mut Vec<Candidate>, softmax: Softmax, keep: usize, p: f32) {
    let mean = mean_distance(candidates, softmax);
    let order = |candidate: &Candidate| (distance(softmax, candidate.logit()).abs_diff(mean), candidate.key);
    let wanted = needed(p, select::total(candidates)) - 1;
    let kept = select::partition_by(candidates, wanted, order) + 1;
    if kept < keep && keep < candidates.len() {
        candidates.select_nth_unstable_by_key(keep - 1, order);
    }
    candidates.truncate(kept.max(keep));
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool_of;

    fn kept(probabilities: &[f32], p: f32, keep: usize) -> Vec<usize> {
        pool_of(&probabilities.iter().map(|p| p.ln()).collect::<Vec<_>>(), keep, |pool| {
            pool.cut(|candidates, softmax, keep| super::cut(candidates, softmax, keep, p));
        })
    }

    #[test]
    fn the_likeliest_token_may_be_less_typical_than_others() {
        // The entropy is 2.3 bits; the surprises are 1.3, 2.3, 2.3 and 4.3 bits.
        let probabilities = [0.4, 0.2, 0.2, 0.05, 0.05, 0.05, 0.05];
        assert_eq!(kept(&probabilities, 0.19, 1), [1]);
        assert_eq!(kept(&probabilities, 0.41, 1), [0, 1, 2]);
        assert_eq!(kept(&probabilities, 0.1, 5), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn equal_and_single_candidates() {
        assert_eq!(kept(&[0.25; 4], 0.5, 1), [0, 1]);
        assert_eq!(kept(&[0.25; 4], 0.0, 1), [0]);
        assert_eq!(kept(&[1.0], 0.5, 1), [0]);
        assert_eq!(kept(&[0.0, 1.0, 0.0], 0.5, 1), [1]);
    }
}
