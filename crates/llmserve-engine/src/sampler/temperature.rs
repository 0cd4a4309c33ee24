//! The temperature, by which logits are divided. It may follow the entropy: from `temperature - range` where one token is
//! certain, to `temperature + range` where all are equally likely (kalomaze, "dynamic temperature", 2023):
//!
//! `T = low + (high - low) * (H / log N)^exponent`, with the entropy `H` of the `N` candidates.

use super::entropy::mean_octaves;
use super::pool::{Pool, log2_of};
use crate::sampling::{DynamicTemperature, SamplingParams};

/// The temperature of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Temperature {
    value: f32,
    dynamic: DynamicTemperature,
}

impl Temperature {
    pub(super) fn new(params: &SamplingParams) -> Self {
        Self { value: params.temperature, dynamic: params.dynamic_temperature }
    }

    /// The same without a range.
    pub(super) fn fixed(params: &SamplingParams) -> Self {
        Self { value: params.temperature, dynamic: DynamicTemperature { range: 0.0, exponent: 1.0 } }
    }

    pub(super) fn is_dynamic(&self) -> bool {
        self.dynamic.range > 0.0
    }

    /// Whether only the likeliest token is left.
    pub(super) fn is_greedy(&self) -> bool {
        !self.is_dynamic() && self.value <= 0.0
    }

    pub(super) fn apply(&self, pool: &mut Pool<'_>) {
        if self.is_dynamic() {
            if let Some(share) = entropy_share(pool) {
                pool.heat(self.at(share));
            }
        } else {
            pool.heat(self.value);
        }
    }

    /// The temperature for an entropy, given as a share of the largest one possible.
    fn at(&self, share: f64) -> f32 {
        let DynamicTemperature { range, exponent } = self.dynamic;
        let (low, high) = ((self.value - range).max(0.0), self.value + range);
        let share = share.clamp(0.0, 1.0).powf(f64::from(exponent)) as f32;
        (low + (high - low) * share).min(f32::MAX)
    }
}

/// The entropy as a share of the largest one possible; `None` of a single candidate.
fn entropy_share(pool: &mut Pool<'_>) -> Option<f64> {
    let (candidates, softmax) = pool.all();
    let largest = (candidates.len() as f64).log2();
    let octaves = mean_octaves(candidates, softmax);
    let entropy = octaves + log2_of(pool.mass());
    (largest > 0.0).then(|| entropy / largest)
}

#[cfg(test)]
mod tests {
    use super::super::pool::Memory;
    use super::super::row::Row;
    use super::*;

    fn temperature(value: f32, range: f32, exponent: f32) -> Temperature {
        Temperature { value, dynamic: DynamicTemperature { range, exponent } }
    }

    fn share_of(logits: &[f32]) -> Option<f64> {
        let (mut maxima, mut memory) = (Vec::new(), Memory::default());
        let row = Row::new(logits, &mut maxima);
        let (_, max) = row.best()?;
        entropy_share(&mut Pool::new(row, max, 1, &mut memory))
    }

    #[test]
    fn it_lies_within_its_range() {
        let dynamic = temperature(0.8, 0.5, 2.0);
        for (share, expected) in [(0.0, 0.3), (0.5, 0.55), (1.0, 1.3)] {
            assert!((dynamic.at(share) - expected).abs() < 1e-6, "{share}");
        }
        assert!(temperature(0.2, 0.5, 1.0).at(0.0) <= 0.0);
        assert!((temperature(0.8, 0.5, 0.0).at(0.0) - 1.3).abs() < 1e-6);
    }

    #[test]
    fn the_entropy_is_that_of_the_definition() {
        let halves: [f64; 5] = [0.5, 0.25, 0.125, 0.0625, 0.0625];
        let share = share_of(&halves.map(|p| p.ln() as f32)).unwrap();
        assert!((share - 1.875 / 5f64.log2()).abs() < 1e-5, "{share}");
        assert!((share_of(&[2.0; 7]).unwrap() - 1.0).abs() < 1e-9);
        assert!(share_of(&[0.0, -200.0]).unwrap().abs() < 1e-9);
    }

    #[test]
    fn a_single_candidate_has_none() {
        assert_eq!(share_of(&[3.0, f32::NEG_INFINITY]), None);
        assert!(temperature(0.0, 0.0, 1.0).is_greedy() && !temperature(0.0, 0.1, 1.0).is_greedy());
    }
}
