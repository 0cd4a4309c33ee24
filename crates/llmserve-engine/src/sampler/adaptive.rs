//! Adaptive-p (`MrJackSpade`, 2025): draws tokens whose probability is close to a target, which moves against what was
//! drawn: `clamp(2 target - mean, 0, 1)`, with the mean of the drawn tokens' probabilities, old ones fading.
//!
//! With the distance `d = |p(x) - adapted target| / 0.3`, the logit of `x` becomes `5 - 10 d^2 / (1 + d)`.

use super::pool::Pool;
use crate::sampling::AdaptiveParams;

const WIDTH: f64 = 0.3;
const PEAK: f64 = 5.0;
const SHARPNESS: f64 = 10.0;

/// The state of one sequence.
#[derive(Debug, Clone)]
pub(super) struct Adaptive {
    params: AdaptiveParams,
    /// The sum of the drawn tokens' probabilities, each times `decay` to the power of its age.
    sum: f64,
    /// The same sum of ones.
    weight: f64,
}

impl Adaptive {
    /// `None` if it is off. It begins as if all tokens so far had hit the target.
    pub(super) fn new(params: AdaptiveParams) -> Option<Self> {
        let weight = 1.0 / (1.0 - f64::from(params.decay));
        let sum = f64::from(params.target) * weight;
        (params.target >= 0.0).then_some(Self { params, sum, weight })
    }

    fn target(&self) -> f64 {
        (2.0 * f64::from(self.params.target) - self.sum / self.weight).clamp(0.0, 1.0)
    }

    pub(super) fn apply(&self, pool: &mut Pool<'_>) {
        let target = self.target();
        pool.change_by_probability(|p| {
            let distance = (p - target).abs() / WIDTH;
            (PEAK - SHARPNESS * distance * distance / (1.0 + distance)) as f32
        });
    }

    /// Learns from the surprise, in bits and before the change, of a token that was drawn.
    pub(super) fn learn(&mut self, surprise: f64) {
        let decay = f64::from(self.params.decay);
        self.sum = (-surprise).exp2() + decay * self.sum;
        self.weight = 1.0 + decay * self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adaptive(target: f32, decay: f32) -> Adaptive {
        Adaptive::new(AdaptiveParams { target, decay }).unwrap()
    }

    #[test]
    fn the_target_moves_against_what_was_drawn() {
        let mut adaptive = adaptive(0.5, 0.5);
        assert!((adaptive.target() - 0.5).abs() < 1e-12);
        // 1 + 0.5 * 1 of 1 + 0.5 * 2: a mean of 0.75.
        adaptive.learn(0.0);
        assert!((adaptive.target() - 0.25).abs() < 1e-12);
        adaptive.learn(f64::INFINITY);
        assert!((adaptive.target() - (1.0 - 0.75 / 2.0)).abs() < 1e-12);
    }

    #[test]
    fn the_target_is_a_probability() {
        let mut low = adaptive(0.1, 0.0);
        low.learn(0.0);
        assert!(low.target().abs() < 1e-12);
        let mut high = adaptive(0.9, 0.0);
        high.learn(f64::INFINITY);
        assert!((high.target() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_negative_target_is_off() {
        assert!(Adaptive::new(AdaptiveParams { target: -1.0, decay: 0.9 }).is_none());
    }
}
