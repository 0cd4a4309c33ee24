//! The random number of each draw: a function of its key, without any state.
//!
//! The generator is `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014, with the finaliser "variant 13" of Stafford): value `i` of the stream
//! that starts at `s` is `mix(s + (i + 1) * GAMMA)`. It can be entered at any position, so drawing
//! a position again, for a draft or after a preemption, gives the same number.

/// The golden ratio, 2^64 / phi, made odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The stream of one sequence, keyed by its seed and choice index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrawKey {
    start: u64,
}

impl DrawKey {
    /// Scrambles the seed, then the choice index on top of it: neighbouring seeds and choices
    /// start at unrelated places.
    pub(super) fn new(seed: u64, choice_index: u32) -> Self {
        let seeded = splitmix64(seed, 0);
        Self { start: splitmix64(seeded, u64::from(choice_index)) }
    }

    /// The key of other draws at the same positions. Below 2^32 the number is no position of this stream.
    pub(super) fn beside(self, purpose: u32) -> Self {
        Self { start: splitmix64(self.start, u64::MAX - u64::from(purpose)) }
    }

    /// 64 uniform bits for the draw that follows `num_generated` tokens.
    pub(super) fn bits(self, num_generated: usize) -> u64 {
        splitmix64(self.start, num_generated as u64)
    }
}

/// Maps 64 uniform bits to `0..bound` by multiplying and keeping the upper half (Lemire, "Fast
/// Random Integer Generation in an Interval", 2019); the bias is below `bound / 2^64`.
pub(super) fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

const fn splitmix64(start: u64, index: u64) -> u64 {
    let mut z = start.wrapping_add(GAMMA.wrapping_mul(index.wrapping_add(1)));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_splitmix64() {
        // The values that the published reference implementation gives for seed 0.
        let expected = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];
        assert_eq!([0, 1, 2].map(|i| splitmix64(0, i)), expected);
    }

    #[test]
    fn keyed_draws_never_change() {
        // Computed apart from this code: a change here changes every seeded text.
        let stream = |seed, choice| [0, 1, 1000].map(|n| DrawKey::new(seed, choice).bits(n));
        assert_eq!(stream(0, 0), [0x2382_75BC_38FC_BE91, 0xF89A_2566_B582_2C54, 0x4FA7_B8C2_D453_4A9E]);
        assert_eq!(stream(42, 0), [0x6310_BF04_D820_7F46, 0xEBDB_7216_A4FF_ED50, 0xD57E_0784_7A4E_7936]);
        assert_eq!(stream(42, 1), [0x08A4_2655_AFD5_6572, 0xC5FD_6642_4979_7016, 0x3BFC_113C_DD7A_B848]);
        assert_eq!(
            stream(u64::MAX, 7),
            [0xB388_0D06_272D_F748, 0xE6E5_02D3_E21B_9537, 0xD940_4BD5_0FB0_DF26]
        );
    }

    #[test]
    fn below_covers_its_range_and_no_more() {
        assert_eq!(below(0, 10), 0);
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(u64::MAX, 1), 0);
        assert_eq!(below(1 << 63, 10), 5);
        assert_eq!(below(u64::MAX, 1 << 60), (1 << 60) - 1);
    }
}
