//! Infill (llama.cpp, 2024), for text between two others: it ends as soon as an end is plausible, and never goes on by
//! chance.
//!
//! - If the ends of a generation have together more than `1 / (3 N)` of what the other of the `N` candidates have, only
//!   ends are left.
//! - A token whose text begins another one's shares its probability: the likelier of the two, the likeliest pairs first,
//!   gets both, and the other is left out.
//! - Of tokens that are no ends, those with at least 0.2 are left, and of these, those with at least `1 / (n + 1)` of
//!   what is left, if there are `n`. If there is none, the likeliest end is drawn.

use super::pool::Pool;
use super::select::{self, Candidate};
use crate::ids::TokenId;

/// What is known of tokens beside their logits.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// The bytes of a token; a control token has none.
    pub piece: &'a dyn Fn(TokenId) -> &'a [u8],
    /// The tokens that end a generation.
    pub ends: &'a [TokenId],
}

impl Default for Words<'_> {
    /// No token has bytes or ends anything.
    fn default() -> Self {
        Self { piece: &|_| &[], ends: &[] }
    }
}

impl Words<'_> {
    fn is_end(self, candidate: &Candidate) -> bool {
        self.ends.contains(&token_of(candidate))
    }
}

fn token_of(candidate: &Candidate) -> TokenId {
    TokenId(candidate.id() as i32)
}

/// Cuts the candidates.
pub(super) fn cut(pool: &mut Pool<'_>, words: Words<'_>) {
    let end = pool.best_of(words.ends);
    pool.cut(|candidates, _, _| cut_candidates(candidates, words, end));
}

fn cut_candidates(candidates: &mut Vec<Candidate>, words: Words<'_>, end: Option<Candidate>) {
    select::sort(candidates);
    let total = select::total(candidates);
    let ends: u64 = candidates.iter().filter(|candidate| words.is_end(candidate)).map(|end| end.weight).sum();
    if 3 * u128::from(ends) * candidates.len() as u128 > u128::from(total - ends) {
        candidates.retain(|candidate| words.is_end(candidate));
        return;
    }
    let merged = merged(candidates, words);
    let mut left: Vec<(Candidate, u64)> = candidates.iter().copied().zip(merged).collect();
    left.retain(|(candidate, mass)| *mass > 0 && (words.is_end(candidate) || mass * 5 >= total));
    let num_texts = left.iter().filter(|(candidate, _)| !words.is_end(candidate)).count();
    if num_texts == 0 {
        // Without an end that may be drawn, the likeliest text.
        candidates.truncate(1);
        candidates.splice(..usize::from(end.is_some()), end);
        return;
    }
    let sum: u64 = left.iter().map(|(_, mass)| mass).sum();
    left.retain(|(candidate, mass)| words.is_end(candidate) || mass * (num_texts as u64 + 1) >= sum);
    candidates.clear();
    candidates.extend(left.iter().map(|(candidate, _)| candidate));
}

/// The probabilities of candidates, the best first, once those whose texts begin alike are merged; 0 for what is left
/// out.
fn merged(candidates: &[Candidate], words: Words<'_>) -> Vec<u64> {
    let pieces: Vec<&[u8]> = candidates.iter().map(|candidate| (words.piece)(token_of(candidate))).collect();
    let mut by_piece: Vec<usize> = (0..pieces.len()).collect();
    by_piece.sort_unstable_by_key(|&index| pieces[index]);
    let mut masses: Vec<u64> = candidates.iter().map(|candidate| candidate.weight).collect();
    let mut longer = Vec::new();
    for (index, &piece) in pieces.iter().enumerate() {
        if piece.is_empty() || masses[index] == 0 {
            continue;
        }
        // Those that it begins stand together.
        let start = by_piece.partition_point(|&other| pieces[other] < piece);
        longer.clear();
        longer.extend(by_piece[start..].iter().take_while(|&&other| pieces[other].starts_with(piece)));
        longer.sort_unstable();
        for &other in longer.iter().filter(|&&other| other != index) {
            let (to, from) = if masses[other] > masses[index] { (other, index) } else { (index, other) };
            masses[to] += std::mem::take(&mut masses[from]);
            if from == index {
                break;
            }
        }
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool_of;
    use super::*;

    /// The tokens that are left of texts with these probabilities; an empty text is an end.
    fn kept(texts: &[(&'static str, f32)]) -> Vec<usize> {
        let logits: Vec<f32> = texts.iter().map(|(_, p)| p.ln()).collect();
        let ends: Vec<TokenId> =
            (0..texts.len()).filter(|&id| texts[id].0.is_empty()).map(|id| TokenId(id as i32)).collect();
        let piece = |token: TokenId| texts[token.0 as usize].0.as_bytes();
        pool_of(&logits, 1, |pool| cut(pool, Words { piece: &piece, ends: &ends }))
    }

    #[test]
    fn a_plausible_end_ends() {
        // 3 * 0.09 * 3 is less than 0.91, and 3 * 0.11 * 3 more than 0.89.
        assert_eq!(kept(&[("a", 0.5), ("b", 0.41), ("", 0.09)]), [0, 1, 2]);
        assert_eq!(kept(&[("a", 0.5), ("b", 0.39), ("", 0.11)]), [2]);
        assert_eq!(kept(&[("a", 0.5), ("", 0.2), ("", 0.3)]), [1, 2]);
    }

    #[test]
    fn texts_that_begin_alike_are_one() {
        // Together they are above the bounds, and the likelier one stands for both.
        assert_eq!(kept(&[("ab", 0.15), ("a", 0.14), ("x", 0.71)]), [2]);
        assert_eq!(kept(&[("ab", 0.35), ("a", 0.25), ("x", 0.4)]), [0, 2]);
        assert_eq!(kept(&[("a", 0.4), ("ab", 0.1), ("ac", 0.1), ("x", 0.4)]), [0, 3]);
        // One that has been merged shares no more.
        assert_eq!(kept(&[("a", 0.2), ("ab", 0.3), ("ac", 0.1), ("x", 0.4)]), [1, 3]);
    }

    #[test]
    fn without_a_likely_text_it_ends() {
        let mut texts: Vec<(&str, f32)> =
            ["a", "b", "c", "d", "e", "f"].into_iter().map(|text| (text, 0.166)).collect();
        assert_eq!(kept(&texts), [0]);
        texts.extend([("", 0.001), ("", 0.002)]);
        assert_eq!(kept(&texts), [7]);
    }

    #[test]
    fn equal_and_single_candidates() {
        assert_eq!(kept(&[("a", 1.0)]), [0]);
        assert_eq!(kept(&[("", 1.0)]), [0]);
        assert_eq!(kept(&[("a", 0.25), ("b", 0.25), ("c", 0.25), ("d", 0.25)]), [0, 1, 2, 3]);
    }
}
