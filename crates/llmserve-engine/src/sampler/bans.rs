//! Tokens that must not be drawn, and what happens if nothing else is left.

use super::penalties::logit_of;
use super::row::Row;
use crate::ids::TokenId;

/// The tokens that may not be drawn at this position.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bans<'a> {
    /// End-of-generation tokens, while `min_tokens` or `ignore_eos` apply.
    pub tokens: &'a [TokenId],
    /// The only tokens that a constraint allows: bit `i % 32` of word `i / 32` stands for token `i`.
    /// Unlike all other bans it is never lifted.
    pub allowed: Option<&'a [u32]>,
}

impl Bans<'_> {
    /// Whether a token may be drawn.
    pub(super) fn allows(&self, token: TokenId) -> bool {
        !self.tokens.contains(&token) && self.allowed.is_none_or(|words| has_bit(words, token.0 as usize))
    }
}

fn has_bit(words: &[u32], index: usize) -> bool {
    words.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 == 1)
}

/// The bits that stand for these tokens.
pub(super) fn mask_of(tokens: &[TokenId]) -> Vec<u32> {
    let mut words = Vec::new();
    for index in tokens.iter().filter_map(|token| usize::try_from(token.0).ok()) {
        if index / 32 >= words.len() {
            words.resize(index / 32 + 1, 0);
        }
        words[index / 32] |= 1 << (index % 32);
    }
    words
}

/// Bans what a mask does not allow.
pub(super) fn apply_mask(words: &[u32], logits: &mut [f32]) {
    let num_covered = words.len() * 32;
    for (word, chunk) in words.iter().zip(logits.chunks_mut(32)) {
        match *word {
            u32::MAX => {}
            0 => chunk.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in chunk.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
    if let Some(rest) = logits.get_mut(num_covered..) {
        rest.fill(f32::NEG_INFINITY);
    }
}

/// Bans each group of tokens and gives the row that is left, with the index and value of its largest logit.
///
/// If nothing is left, groups are lifted from the last to the first until something is: the most
/// important group stands first. `None`: there is nothing even without bans. `undo` and `maxima` are
/// working memory.
pub(super) fn apply<'r, const N: usize>(
    groups: [&[TokenId]; N],
    logits: &'r mut [f32],
    undo: &mut Vec<(TokenId, f32)>,
    maxima: &'r mut Vec<f32>,
) -> Option<(Row<'r>, (usize, f32))> {
    undo.clear();
    let mut marks = [0; N];
    for (mark, group) in marks.iter_mut().zip(groups) {
        *mark = undo.len();
        for &token in group {
            if let Some(logit) = logit_of(logits, token) {
                undo.push((token, *logit));
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    for &mark in marks.iter().rev() {
        // Short of the row's end in most cases.
        if logits.iter().any(|&logit| logit > f32::NEG_INFINITY) {
            break;
        }
        // Backwards: a token that was banned twice gets its first value.
        for (token, before) in undo.drain(mark..).rev() {
            if let Some(logit) = logit_of(logits, token) {
                *logit = before;
            }
        }
    }
    let row = Row::new(logits, maxima);
    row.best().map(|best| (row, best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::select;

    fn ids(tokens: &[i32]) -> Vec<TokenId> {
        tokens.iter().map(|&token| TokenId(token)).collect()
    }

    /// The tokens that are left of three with logits 1, 2 and 3.
    fn left(groups: [&[i32]; 3]) -> Vec<i32> {
        let groups = groups.map(ids);
        let mut logits = [1.0, 2.0, 3.0];
        let groups = groups.each_ref().map(Vec::as_slice);
        let (mut undo, mut maxima) = (Vec::new(), Vec::new());
        let best = apply(groups, &mut logits, &mut undo, &mut maxima).map(|(_, best)| best);
        assert_eq!(best, select::argmax(&logits));
        (0..3).filter(|&id| logits[id as usize] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn bans_hold_while_something_is_left() {
        assert_eq!(left([&[], &[], &[]]), [0, 1, 2]);
        assert_eq!(left([&[2], &[], &[]]), [0, 1]);
        assert_eq!(left([&[2], &[2], &[1, 1, 2]]), [0]);
        assert_eq!(left([&[-1, 3], &[99], &[]]), [0, 1, 2]);
    }

    #[test]
    fn the_last_group_is_lifted_first() {
        assert_eq!(left([&[2], &[1], &[0]]), [0]);
        assert_eq!(left([&[2], &[1], &[0, 1, 2]]), [0]);
        assert_eq!(left([&[2], &[0, 1], &[]]), [0, 1]);
        assert_eq!(left([&[2], &[0, 1], &[0]]), [0, 1]);
        assert_eq!(left([&[0, 1, 2], &[], &[]]), [0, 1, 2]);
        assert_eq!(left([&[2, 1, 0, 0], &[0, 2], &[1, 1]]), [0, 1, 2]);
    }

    #[test]
    fn a_mask_leaves_only_its_tokens() {
        let mut words = vec![u32::MAX, 0, 0b101];
        let mut logits = vec![1.0; 32 * 3 + 5];
        apply_mask(&words, &mut logits);
        let left: Vec<usize> = (0..logits.len()).filter(|&id| logits[id] > f32::NEG_INFINITY).collect();
        assert_eq!(left, (0..32).chain([64, 66]).collect::<Vec<_>>());
        words.truncate(1);
        let bans = Bans { tokens: &ids(&[3]), allowed: Some(&words) };
        assert!(bans.allows(TokenId(31)) && !bans.allows(TokenId(32)) && !bans.allows(TokenId(3)));
        assert!(!bans.allows(TokenId(-1)));
        assert_eq!(mask_of(&ids(&[66, 64, 3, 64, -1])), [0b1000, 0, 0b101]);
    }

    #[test]
    fn nothing_finite_is_none() {
        let mut logits = [f32::NAN, f32::NEG_INFINITY];
        assert!(apply([&ids(&[0])], &mut logits, &mut Vec::new(), &mut Vec::new()).is_none());
    }
}
