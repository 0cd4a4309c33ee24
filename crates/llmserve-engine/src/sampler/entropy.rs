//! How surprising tokens are on average, exactly.
//!
//! The surprise of a token is its distance to the likeliest one in octaves (factors of two in probability), plus a
//! number that is the same for all tokens of a position. Distances are whole multiples of `2^-20`: their weighted
//! sums are exact, and so the same in any order.

use super::select::Candidate;
use super::weight::Softmax;

/// An octave.
const OCTAVE: f32 = (1 << 20) as f32;

/// How far a logit is below the largest.
pub(super) fn distance(softmax: Softmax, logit: f32) -> u64 {
    (softmax.octaves(logit) * OCTAVE) as u64
}

/// The mean distance by probability, in octaves times `2^20`. 0 if there are no candidates.
pub(super) fn mean_distance(candidates: &[Candidate], softmax: Softmax) -> u64 {
    let (mut mass, mut sum) = (0, 0);
    for candidate in candidates {
        mass += u128::from(candidate.weight);
        sum += u128::from(candidate.weight) * u128::from(distance(softmax, candidate.logit()));
    }
    sum.checked_div(mass).unwrap_or(0) as u64
}

/// The mean distance in octaves.
pub(super) fn mean_octaves(candidates: &[Candidate], softmax: Softmax) -> f64 {
    mean_distance(candidates, softmax) as f64 / f64::from(OCTAVE)
}
