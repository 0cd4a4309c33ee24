//! A small generator of random numbers, and of random legal bytes.

use super::super::ByteJudge;

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        (value % bound as u64) as usize
    }
}

/// A legal byte, `None` where there is none. Strings and arrays end sooner than at uniform odds, and
/// objects and arrays begin more often, so that walks get somewhere.
pub(super) fn legal_byte(judge: &mut dyn ByteJudge, random: &mut Random) -> Option<u8> {
    let allowed = judge.allowed();
    let bytes: Vec<u8> = (0..=255).filter(|&byte| allowed[usize::from(byte)]).collect();
    let weight = |byte: u8| match byte {
        b'"' => 60,
        b'{' | b'[' => 30,
        b',' => 25,
        b'}' | b']' => 12,
        b'\\' => 6,
        b'a'..=b'z' | b'0'..=b'9' => 3,
        _ => 1,
    };
    let total: usize = bytes.iter().map(|&byte| weight(byte)).sum();
    let mut left = random.below(total.max(1));
    bytes.into_iter().find(|&byte| {
        let weight = weight(byte);
        let is_chosen = left < weight;
        left = left.saturating_sub(weight);
        is_chosen
    })
}
