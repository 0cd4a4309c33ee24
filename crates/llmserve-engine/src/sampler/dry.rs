//! DRY, "Don't Repeat Yourself" (pew, text-generation-webui pull request 5677, 2024): a token that would continue a
//! repetition becomes the less likely the longer the repetition is.
//!
//! If the last `n` tokens of the text occur earlier, followed by a token, `multiplier * base^(n - allowed_length)` is
//! subtracted from that token's logit, for the largest such `n` of at least `allowed_length`. A repetition does not
//! extend across the end of a *sequence breaker*, and tokens that end one are not penalised: chat
//! templates and lists may repeat.

use super::penalties::{change, logit_of};
use crate::detokenizer::{START, State, StopStrings};
use crate::ids::TokenId;
use crate::sampling::{DryParams, SamplingParams};

/// The rule and the tokens it looks at.
#[derive(Debug, Clone)]
pub(super) struct Dry {
    multiplier: f32,
    base: f32,
    allowed_length: usize,
    /// How many last tokens are looked at.
    window: usize,
    breakers: Breakers,
    /// Tokens with whether they end a breaker. Up to twice as many as are looked at, so that old ones are
    /// dropped many at a time.
    tokens: Vec<(TokenId, bool)>,
    /// Number of tokens after the last breaker.
    num_unbroken: usize,
}

/// Where a text that comes in token by token ends a sequence breaker.
#[derive(Debug, Clone)]
struct Breakers {
    strings: Option<StopStrings>,
    state: State,
}

/// Working memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    lengths: Vec<usize>,
    penalties: Vec<(TokenId, f32)>,
}

impl Dry {
    /// The rule at the end of a prompt. `None` if it is off. `piece` gives the bytes of a token.
    pub(super) fn new<'a>(
        params: &SamplingParams,
        prompt: &[TokenId],
        piece: impl Fn(TokenId) -> &'a [u8],
    ) -> Option<Self> {
        let DryParams { multiplier, base, allowed_length, last_n, breakers } = &params.dry;
        if *multiplier <= 0.0 || *last_n == 0 {
            return None;
        }
        let mut dry = Self {
            multiplier: *multiplier,
            base: *base,
            allowed_length: *allowed_length as usize,
            window: *last_n as usize,
            breakers: Breakers { strings: StopStrings::new(breakers), state: START },
            tokens: Vec::new(),
            num_unbroken: 0,
        };
        for &token in &prompt[prompt.len().saturating_sub(dry.window)..] {
            dry.push(token, piece(token));
        }
        Some(dry)
    }

    /// Adds a token, which has these bytes.
    pub(super) fn push(&mut self, token: TokenId, piece: &[u8]) {
        let ends_breaker = self.breakers.end_in(piece);
        self.num_unbroken = if ends_breaker { 0 } else { self.num_unbroken + 1 };
        if self.tokens.len() >= self.window.saturating_mul(2) {
            self.tokens.drain(..=self.tokens.len() - self.window);
        }
        self.tokens.push((token, ends_breaker));
    }

    /// Subtracts the penalties from a row.
    pub(super) fn apply(&self, logits: &mut [f32], memory: &mut Memory) {
        for &(token, amount) in self.penalties(memory) {
            if let Some(logit) = logit_of(logits, token) {
                change(logit, |logit| logit - amount);
            }
        }
    }

    /// What is subtracted from which tokens, in order of their ids, each once.
    pub(super) fn penalties<'m>(&self, memory: &'m mut Memory) -> &'m [(TokenId, f32)] {
        let Memory { lengths, penalties } = memory;
        penalties.clear();
        if self.num_unbroken >= self.allowed_length {
            let text = &self.tokens[self.tokens.len().saturating_sub(self.window)..];
            repeated(text, lengths);
            for (&length, &(follower, ends_breaker)) in lengths.iter().zip(text.iter().rev()) {
                let length = length.min(self.num_unbroken);
                if length >= self.allowed_length && !ends_breaker {
                    let exponent = (length - self.allowed_length) as f32;
                    penalties.push((follower, self.multiplier * self.base.powf(exponent)));
                }
            }
            // The largest of each token.
            penalties.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then(y.total_cmp(x)));
            penalties.dedup_by_key(|(token, _)| *token);
        }
        penalties
    }
}

impl Breakers {
    /// Whether a breaker ends in the next bytes of the text.
    fn end_in(&mut self, mut bytes: &[u8]) -> bool {
        let Some(strings) = &self.strings else { return false };
        let mut is_found = false;
        while let Some(found) = strings.search(&mut self.state, bytes) {
            is_found = true;
            bytes = &bytes[found.end..];
        }
        is_found
    }
}

/// For each token of a text but the first, from the last one back: how many tokens before it equal the last
/// ones of the text.
///
/// The Z-algorithm (Gusfield, "Algorithms on Strings, Trees and Sequences", 1997, section 1.4) on the reversed
/// text: each token is compared with an earlier one at most twice.
fn repeated(text: &[(TokenId, bool)], lengths: &mut Vec<usize>) {
    let len = text.len();
    let from_end = |index: usize| text[len - 1 - index].0;
    lengths.clear();
    // The match that reaches furthest back: where it begins, and its end.
    let (mut begin, mut end) = (0, 0);
    for shift in 1..len {
        let mut length = if shift < end { lengths[shift - begin - 1].min(end - shift) } else { 0 };
        while shift + length < len && from_end(length) == from_end(shift + length) {
            length += 1;
        }
        if shift + length > end {
            (begin, end) = (shift, shift + length);
        }
        lengths.push(length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tokens are letters.
    fn pieces(token: TokenId) -> &'static [u8] {
        &b"abcdefghijklmnopqrstuvwxyz.\n"[token.0 as usize..=token.0 as usize]
    }

    fn tokens(text: &str) -> Vec<TokenId> {
        let letters = b"abcdefghijklmnopqrstuvwxyz.\n";
        let id = |byte| letters.iter().position(|&letter| letter == byte).unwrap();
        text.bytes().map(|byte| TokenId(id(byte) as i32)).collect()
    }

    fn params(allowed_length: u32, last_n: u32, breakers: &[&str]) -> SamplingParams {
        let breakers = breakers.iter().map(|&breaker| breaker.to_owned()).collect();
        let dry = DryParams { multiplier: 1.0, base: 2.0, allowed_length, last_n, breakers };
        SamplingParams { dry, ..SamplingParams::default() }
    }

    /// The letters that are penalised after a text, with the amounts.
    fn penalised(params: &SamplingParams, prompt: &str, output: &str) -> Vec<(char, f32)> {
        let mut dry = Dry::new(params, &tokens(prompt), pieces).unwrap();
        for token in tokens(output) {
            dry.push(token, pieces(token));
        }
        let mut memory = Memory::default();
        let letter = |token: TokenId| char::from(pieces(token)[0]);
        dry.penalties(&mut memory).iter().map(|&(token, amount)| (letter(token), amount)).collect()
    }

    #[test]
    fn the_longest_repetition_counts() {
        let params = params(2, 64, &[]);
        assert_eq!(penalised(&params, "abcd", "xbcexabc"), [('d', 2.0), ('e', 1.0)]);
        assert_eq!(penalised(&params, "abcdxbcexabc", ""), [('d', 2.0), ('e', 1.0)]);
        assert_eq!(penalised(&params, "ab", "cab"), [('c', 1.0)]);
        assert_eq!(penalised(&params, "aaaaa", ""), [('a', 4.0)]);
        assert_eq!(penalised(&params, "abc", ""), []);
        assert_eq!(penalised(&params, "", ""), []);
    }

    #[test]
    fn repetitions_end_at_breakers() {
        assert_eq!(penalised(&params(2, 64, &["."]), "a.bcd", "a.bc"), [('d', 1.0)]);
        assert_eq!(penalised(&params(2, 64, &["c"]), "abcd", "abc"), []);
        // Over several tokens: what comes after `bc` is one token only.
        assert_eq!(penalised(&params(2, 64, &["bc"]), "abcdef", "abcd"), []);
        assert_eq!(penalised(&params(1, 64, &["bc"]), "abcdef", "abcd"), [('e', 1.0)]);
        // The end of a breaker is not penalised.
        assert_eq!(penalised(&params(2, 64, &["."]), "ab.", "ab"), []);
    }

    #[test]
    fn only_the_window_is_looked_at() {
        for text in ["abcxyzabc", "abcxyzvvvvabcxyzabc"] {
            assert_eq!(penalised(&params(2, 9, &[]), text, ""), [('x', 2.0)]);
            assert_eq!(penalised(&params(2, 8, &[]), "", text), [('x', 1.0)]);
            assert_eq!(penalised(&params(2, 7, &[]), text, ""), []);
        }
    }

    #[test]
    fn off_is_none() {
        let no_pieces = |_| &b""[..];
        assert!(Dry::new(&SamplingParams::default(), &[], no_pieces).is_none());
        assert!(Dry::new(&params(2, 0, &[]), &[], no_pieces).is_none());
    }

    #[test]
    fn long_repetitions_keep_logits_finite() {
        let dry = Dry::new(&params(1, 9999, &[]), &[TokenId(0); 2000], pieces).unwrap();
        let mut logits = [1.0, f32::NEG_INFINITY, f32::INFINITY];
        dry.apply(&mut logits, &mut Memory::default());
        assert_eq!(logits.to_vec(), [f32::MIN, f32::NEG_INFINITY, f32::INFINITY]);
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            text in "[abc.]{0,40}", allowed_length in 1u32..4, last_n in 1u32..45, split in 0usize..40,
        ) {
            let split = split.min(text.len());
            let found = penalised(&params(allowed_length, last_n, &["."]), &text[..split], &text[split..]);
            let window = &text[text.len().saturating_sub(last_n as usize)..];
            let mut expected = std::collections::BTreeMap::new();
            for (place, follower) in window.char_indices().filter(|(_, letter)| *letter != '.') {
                let longest = (1..=place)
                    .filter(|&n| window.ends_with(&window[place - n..place]))
                    .filter(|&n| !window[place - n..place].contains('.'))
                    .max()
                    .unwrap_or(0);
                if longest >= allowed_length as usize {
                    let amount = 2f32.powi((longest - allowed_length as usize) as i32);
                    let entry = expected.entry(follower).or_insert(amount);
                    *entry = amount.max(*entry);
                }
            }
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
