//! The rule that no n-gram occurs twice.

use std::collections::{HashMap, HashSet};

use crate::ids::TokenId;

/// The Mersenne prime 2^61 - 1, the modulus of the fingerprints.
const MODULUS: u64 = (1 << 61) - 1;
/// The base of the fingerprints: any large number below the modulus.
const BASE: u64 = 1_163_714_529_483_015_923;
/// No follower.
const NONE: u32 = u32::MAX;

/// An index of all n-grams of a history, with the last token of each as what must not follow the
/// others again.
///
/// An n-gram is known by a polynomial fingerprint (Karp and Rabin 1987), and so are the n - 1 tokens
/// before its last one: entering and looking up cost the same for every n. Two different contexts share a
/// fingerprint with a chance of about length / 2^61, and would at worst ban a token once.
#[derive(Debug, Clone)]
pub(super) struct NgramBans {
    /// n - 1.
    context: usize,
    /// `BASE` to the power of `context`.
    context_power: u64,
    /// Fingerprints of the history's prefixes; the first is that of no token.
    prefixes: Vec<u64>,
    /// The n-grams that have occurred, so that each is entered once.
    ngrams: HashSet<u64>,
    /// For each context, the newest of its followers.
    newest: HashMap<u64, u32>,
    /// The followers of all contexts, each with the one before it of the same context.
    followers: Vec<(TokenId, u32)>,
}

impl NgramBans {
    /// Bans n-grams of this size, 1 or more, where `history` contains the first tokens.
    pub(super) fn new(size: u32, history: &[TokenId]) -> Self {
        let context = size.saturating_sub(1);
        let mut bans = Self {
            context: context as usize,
            context_power: power(BASE, context),
            prefixes: vec![0],
            ngrams: HashSet::new(),
            newest: HashMap::new(),
            followers: Vec::new(),
        };
        for &token in history {
            bans.push(token);
        }
        bans
    }

    /// Adds a token.
    pub(super) fn push(&mut self, token: TokenId) {
        // One more than the id, so that token 0 counts.
        let digit = u64::from(token.0 as u32) + 1;
        if let Some(context) = self.last_context()
            && self.ngrams.insert(add(multiply(context, BASE), digit))
        {
            let added = self.followers.len() as u32;
            let before = self.newest.insert(context, added).unwrap_or(NONE);
            self.followers.push((token, before));
        }
        let last = self.prefixes.last().copied().unwrap_or(0);
        self.prefixes.push(add(multiply(last, BASE), digit));
    }

    /// The tokens that would complete an n-gram of the history, each once.
    pub(super) fn banned(&self) -> impl Iterator<Item = TokenId> + '_ {
        let newest = self.last_context().and_then(|context| self.newest.get(&context));
        let follower = |index: u32| self.followers.get(index as usize);
        let chain = std::iter::successors(newest.and_then(|&index| follower(index)), move |(_, before)| {
            follower(*before)
        });
        chain.map(|&(token, _)| token)
    }

    /// The fingerprint of the last n - 1 tokens.
    fn last_context(&self) -> Option<u64> {
        let end = self.prefixes.len() - 1;
        let before = self.prefixes[end.checked_sub(self.context)?];
        Some(add(self.prefixes[end], MODULUS - multiply(before, self.context_power)))
    }
}

/// The sum modulo 2^61 - 1 of two numbers whose sum is below twice the modulus.
fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

/// The product modulo 2^61 - 1.
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // 2^61 is 1 here, so the upper bits are added to the lower ones.
    add(product as u64 & MODULUS, (product >> 61) as u64)
}

fn power(base: u64, mut exponent: u32) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ids(tokens: &[i32]) -> Vec<TokenId> {
        tokens.iter().map(|&token| TokenId(token)).collect()
    }

    /// Every n-gram of the history whose first n - 1 tokens are its last n - 1.
    fn banned_by_search(size: usize, history: &[TokenId]) -> BTreeSet<TokenId> {
        if history.len() < size {
            return BTreeSet::new();
        }
        let tail = &history[history.len() - (size - 1)..];
        history
            .windows(size)
            .filter(|window| window.starts_with(tail))
            .filter_map(|window| window.last().copied())
            .collect()
    }

    proptest! {
        #[test]
        fn equals_a_search(size in 1u32..6, tokens in prop::collection::vec(0i32..4, 0..60)) {
            let history = ids(&tokens);
            let bans = NgramBans::new(size, &history);
            let banned: BTreeSet<TokenId> = bans.banned().collect();
            prop_assert_eq!(banned.len(), bans.banned().count());
            prop_assert_eq!(banned, banned_by_search(size as usize, &history));
        }
    }

    #[test]
    fn size_one_bans_each_token_of_the_history_once() {
        let banned: Vec<TokenId> = NgramBans::new(1, &ids(&[3, 0, 3])).banned().collect();
        assert_eq!(banned, ids(&[0, 3]));
        assert_eq!(NgramBans::new(1, &[]).banned().count(), 0);
    }

    #[test]
    fn a_text_that_repeats_itself_costs_what_is_new_in_it() {
        let bans = NgramBans::new(2, &ids(&[1, 2].repeat(5000)));
        assert_eq!((bans.followers.len(), bans.banned().count()), (2, 1));
    }

    #[test]
    fn sizes_beyond_the_history_ban_nothing() {
        assert_eq!(NgramBans::new(u32::MAX, &ids(&[1, 1, 1])).banned().count(), 0);
    }
}
