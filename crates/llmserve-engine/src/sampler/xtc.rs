//! XTC, "Exclude Top Choices" (pew, text-generation-webui pull request 6335, 2024): with a probability, all tokens of at
//! least `threshold` but the least likely of these are left out. What is left is plausible still, and less
//! expected.

use super::draw::DrawKey;
use super::pool::needed;
use super::select::{self, Candidate};
use crate::sampling::XtcParams;

/// Whether the choices of a position are left out. The draw is a key's own.
pub(super) fn hits(params: XtcParams, key: DrawKey, num_generated: usize) -> bool {
    let bound = (f64::from(params.probability) * 2.0f64.powi(64)) as u128;
    u128::from(key.bits(num_generated)) < bound
}

/// Leaves out the likeliest candidates, unless fewer than `keep` would be left.
pub(super) fn cut(candidates: &mut Vec<Candidate>, keep: usize, threshold: f32) {
    let bound = needed(threshold, select::total(candidates));
    let choices = || candidates.iter().filter(|candidate| candidate.weight >= bound);
    let num_left = candidates.len() + 1 - choices().count();
    let kept = choices().map(|candidate| candidate.key).max();
    if let Some(first) = kept.filter(|_| num_left >= keep) {
        candidates.retain(|candidate| candidate.key >= first);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool_of;
    use super::*;

    fn kept(probabilities: &[f32], threshold: f32, keep: usize) -> Vec<usize> {
        pool_of(&probabilities.iter().map(|p| p.ln()).collect::<Vec<_>>(), keep, |pool| {
            pool.cut(|candidates, _, keep| cut(candidates, keep, threshold));
        })
    }

    #[test]
    fn the_least_likely_choice_stays() {
        let probabilities = [0.1, 0.4, 0.2, 0.2, 0.1];
        assert_eq!(kept(&probabilities, 0.15, 1), [0, 3, 4]);
        assert_eq!(kept(&probabilities, 0.3, 1), [0, 1, 2, 3, 4]);
        assert_eq!(kept(&probabilities, 0.15, 3), [0, 3, 4]);
        assert_eq!(kept(&probabilities, 0.15, 4), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn equal_and_single_candidates() {
        assert_eq!(kept(&[0.25; 4], 0.2, 1), [3]);
        assert_eq!(kept(&[1.0], 0.1, 1), [0]);
        assert_eq!(kept(&[0.0, 1.0], 0.1, 1), [1]);
    }

    #[test]
    fn it_happens_as_often_as_it_should() {
        let key = DrawKey::new(7, 0);
        let count = |probability| {
            let params = XtcParams { probability, threshold: 0.1 };
            (0..10_000).filter(|&position| hits(params, key, position)).count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        // Six standard deviations.
        assert!(count(0.25).abs_diff(2500) < 260);
    }
}
