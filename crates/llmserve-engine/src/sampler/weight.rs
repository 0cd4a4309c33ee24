//! Softmax weights as integers.
//!
//! A weight is `exp((logit - max) / temperature)` in fixed point with [`FRACTION_BITS`] bits after
//! the point, so the likeliest token weighs exactly [`ONE`]. Integer sums are exact in any order:
//! what is drawn depends neither on how the candidates were partitioned nor on the width of the
//! machine's vectors, and no library's `exp` is involved. Tokens below about `2^-41` of the
//! likeliest one weigh nothing.

use std::f32::consts::LOG2_E;

/// Bits after the point: with 2^22 tokens a sum still fits 63 bits.
const FRACTION_BITS: u32 = 40;
/// The weight of the likeliest token.
pub(super) const ONE: u64 = 1 << FRACTION_BITS;
/// Bits of a float's mantissa, without the leading one.
const MANTISSA_BITS: u32 = f32::MANTISSA_DIGITS - 1;
const MANTISSA: u32 = (1 << MANTISSA_BITS) - 1;
/// The biased exponent of 1.0.
const EXPONENT_OF_ONE: u32 = 1.0f32.to_bits() >> MANTISSA_BITS;
/// Bits of a weight below those of a mantissa.
const SPARE_BITS: u32 = FRACTION_BITS - MANTISSA_BITS;
/// A distance in octaves that stands for all larger ones.
const NOTHING: f32 = 62.0;
/// A distance in octaves from which on every weight is 0.
const WEIGHTLESS: f32 = (FRACTION_BITS + 1) as f32;
/// A distance in octaves from which on a mantissa is shifted down only.
const SMALL: f32 = SPARE_BITS as f32;
/// Number of mantissas that fit a sum of 32 bits.
const SMALL_SUM: usize = 1 << (u32::BITS - f32::MANTISSA_DIGITS);
/// Adding 1.5 * 2^23 rounds a small float to a whole number in its lowest bits.
const ROUND: f32 = 12_582_912.0;

/// The softmax of one row of logits at one temperature, before normalising.
#[derive(Debug, Clone, Copy)]
pub(super) struct Softmax {
    max: f32,
    /// Octaves (factors of two in probability) per unit of logit.
    scale: f32,
}

impl Softmax {
    /// The weights of a row whose largest logit is `max`. The temperature is above 0.
    pub(super) fn new(max: f32, temperature: f32) -> Self {
        // A finite scale keeps 0 * scale from being NaN.
        let scale = (LOG2_E / temperature).min(f32::MAX);
        Self { max, scale }
    }

    /// The largest logit.
    pub(super) fn max(self) -> f32 {
        self.max
    }

    /// The weight of a logit that is at most `max`. NaN weighs nothing; an infinite logit equals an
    /// infinite `max` and leaves nothing to finite ones.
    #[inline]
    pub(super) fn weight(self, logit: f32) -> u64 {
        let (mantissa, places) = self.parts(logit);
        (u64::from(mantissa) << SPARE_BITS) >> places
    }

    /// The sum of the weights of some logits, of which `max` is the largest.
    pub(super) fn mass_of(self, logits: &[f32], max: f32) -> u64 {
        let octaves = self.octaves(max);
        if octaves >= WEIGHTLESS {
            0
        } else if octaves >= SMALL {
            logits.chunks(SMALL_SUM).map(|logits| u64::from(self.small_mass(logits))).sum()
        } else {
            logits.iter().map(|&logit| self.weight(logit)).sum()
        }
    }

    /// The same sum for at most [`SMALL_SUM`] logits that are [`SMALL`] octaves below the largest or further: their
    /// weights fit 32 bits, and so twice as many into a vector.
    fn small_mass(self, logits: &[f32]) -> u32 {
        let weights = logits.iter().map(|&logit| {
            let (mantissa, places) = self.parts(logit);
            // A shift by the number's size would be undefined; by one less there is nothing left either.
            mantissa >> (places - SPARE_BITS).min(u32::BITS - 1)
        });
        weights.sum()
    }

    /// How many octaves a logit lies below the largest, at most [`NOTHING`]. Larger logits are never further.
    #[inline]
    pub(super) fn octaves(self, logit: f32) -> f32 {
        let octaves = if logit >= self.max { 0.0 } else { (self.max - logit) * self.scale };
        // Written so that NaN takes the other branch.
        if octaves < NOTHING { octaves } else { NOTHING }
    }

    /// A logit's weight as a mantissa, which stands [`SPARE_BITS`] places further up, and the places to shift that down.
    #[inline]
    fn parts(self, logit: f32) -> (u32, u32) {
        let octaves = self.octaves(logit);
        let rounded = octaves + ROUND;
        let whole = rounded.to_bits() - ROUND.to_bits();
        let near = exp2_near_zero((rounded - ROUND) - octaves);
        // Divides by 2^whole in the exponent.
        let bits = near.to_bits() - (whole << MANTISSA_BITS);
        (bits & MANTISSA | 1 << MANTISSA_BITS, EXPONENT_OF_ONE - (bits >> MANTISSA_BITS))
    }

    /// The logit that lies `octaves` below the largest one, roughly.
    pub(super) fn logit_below_max(self, octaves: f32) -> f32 {
        if self.max < f32::INFINITY { self.max - octaves / self.scale } else { self.max }
    }
}

/// `2^x` for `-0.5 <= x <= 0.5`, to about 1e-7: the Taylor series, `ln(2)^n / n!`.
#[inline]
fn exp2_near_zero(x: f32) -> f32 {
    let mut sum = 1.540_353_e-4;
    sum = sum * x + 1.333_355_8e-3;
    sum = sum * x + 9.618_129e-3;
    sum = sum * x + 5.550_411e-2;
    sum = sum * x + 0.240_226_5;
    sum = sum * x + std::f32::consts::LN_2;
    sum * x + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(max: f32, logit: f32, temperature: f32) -> f64 {
        ((f64::from(logit) - f64::from(max)) / f64::from(temperature)).exp() * ONE as f64
    }

    #[test]
    fn weights_follow_the_exponential() {
        for temperature in [0.3f32, 1.0, 4.0] {
            let softmax = Softmax::new(10.0, temperature);
            for step in 0..40_000u16 {
                let logit = 10.0 - f32::from(step) * 0.0007;
                let (weight, exact) = (softmax.weight(logit) as f64, exact(10.0, logit, temperature));
                // The distance in octaves is itself rounded to 24 bits: 28 nats cost 2e-6.
                let tolerance = exact * 1e-5 + 2.0;
                assert!((weight - exact).abs() <= tolerance, "{temperature} {logit}: {weight} {exact}");
            }
        }
    }

    #[test]
    fn powers_of_two_are_good_to_a_few_units_in_the_last_place() {
        for step in -5000..=5000i16 {
            let x = f32::from(step) / 10_000.0;
            let exact = f64::from(x).exp2();
            let error = (f64::from(exp2_near_zero(x)) / exact - 1.0).abs();
            assert!(error < 3e-7, "{x}: {error}");
        }
    }

    #[test]
    fn likeliest_weighs_one() {
        for temperature in [f32::from_bits(1), 1e-30, 1.0, 1e30, f32::MAX] {
            for max in [f32::MIN, -1e30, 0.0, 1e30, f32::MAX, f32::INFINITY] {
                assert_eq!(Softmax::new(max, temperature).weight(max), ONE);
            }
        }
    }

    #[test]
    fn extremes() {
        assert_eq!(Softmax::new(1.0, 1.0).weight(f32::NAN), 0);
        assert_eq!(Softmax::new(1.0, 1.0).weight(f32::NEG_INFINITY), 0);
        assert_eq!(Softmax::new(f32::INFINITY, 1e30).weight(f32::MAX), 0);
        assert_eq!(Softmax::new(1.0, 1e-30).weight(0.999), 0);
        assert_eq!(Softmax::new(1.0, 1e30).weight(-100.0), ONE);
        assert_eq!(Softmax::new(0.0, f32::MAX).weight(f32::NEG_INFINITY), 0);
    }

    #[test]
    fn mass_is_the_sum_however_far_down() {
        for start in [0.0, 10.0, 11.5, 12.5, 14.0, 25.0, 28.0, 29.0, 50.0, 1e9] {
            let logits: Vec<f32> = (0..1003u16).map(|i| -start - f32::from(i % 97) * 0.11).collect();
            let softmax = Softmax::new(0.0, 0.9);
            let sum: u64 = logits.iter().map(|&logit| softmax.weight(logit)).sum();
            assert_eq!(softmax.mass_of(&logits, -start), sum, "from {start}");
        }
    }

    #[test]
    fn logit_below_max_bounds_a_band() {
        let softmax = Softmax::new(3.0, 0.5);
        let ratio = softmax.weight(softmax.logit_below_max(8.0)) as f64 / ONE as f64;
        assert!((ratio * 256.0 - 1.0).abs() < 1e-4);
        assert_eq!(softmax.logit_below_max(f32::INFINITY).to_bits(), f32::NEG_INFINITY.to_bits());
        let infinite = Softmax::new(f32::INFINITY, 1e30);
        assert_eq!(infinite.logit_below_max(f32::INFINITY).to_bits(), f32::INFINITY.to_bits());
    }
}
