//! Finding the best of a row of logits without sorting the vocabulary.
//!
//! The order is everywhere the same: the larger logit first, then the lower id. NaN and minus
//! infinity are never selected.

use super::row::{LANES, Row, largest};
use super::weight::Softmax;

/// Logits whose maximum is found together; the position is looked up in the best block only.
const BLOCK: usize = 1024;
/// A slice of at most this many candidates is sorted.
const SORTED: usize = 256;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Orders candidates, the best first: the logit, reversed, above the id.
    pub(super) key: u64,
    /// The candidate's share of the probability, see [`Softmax`].
    pub(super) weight: u64,
}

impl Candidate {
    pub(super) fn new(id: usize, logit: f32, weight: u64) -> Self {
        // The bits of a float, made to order like the float; adding 0 makes -0 equal to 0.
        let bits = (logit + 0.0).to_bits();
        let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
        let key = u64::from(!ascending) << 32 | id as u64;
        Self { key, weight }
    }

    /// The token's id.
    pub(super) fn id(self) -> usize {
        self.key as u32 as usize
    }

    /// The token's logit; 0 if it was -0.
    pub(super) fn logit(self) -> f32 {
        let ascending = !((self.key >> 32) as u32);
        f32::from_bits(if ascending >> 31 == 1 { ascending ^ 1 << 31 } else { !ascending })
    }

    /// The same token with another logit, and without a weight.
    pub(super) fn with_logit(self, logit: f32) -> Self {
        Self::new(self.id(), logit, 0)
    }
}

/// The index and the value of the largest logit.
pub(crate) fn argmax(logits: &[f32]) -> Option<(usize, f32)> {
    let (mut start, mut best) = (0, f32::NEG_INFINITY);
    for (index, block) in logits.chunks(BLOCK).enumerate() {
        let max = largest(block);
        if max > best {
            (start, best) = (index * BLOCK, max);
        }
    }
    if best > f32::NEG_INFINITY {
        let offset = logits[start..].iter().position(|&logit| logit >= best)?;
        Some((start + offset, best))
    } else {
        None
    }
}

/// Whether a logit of the chunk is so. Looks at all of them, which takes no branches.
fn has_any(chunk: &[f32], is_so: impl Fn(f32) -> bool) -> bool {
    chunk.iter().map(|&logit| u32::from(is_so(logit))).sum::<u32>() > 0
}

/// Fills `candidates` with the best `k`, in any order and without weights. `maxima` is working memory.
///
/// Only blocks with a logit that can be among them are looked at. Up to twice as many as wanted are kept
/// and, when they are full, the worse half is dropped, with all later logits that would not be in the better one.
pub(super) fn top_k(row: Row<'_>, k: usize, maxima: &mut Vec<f32>, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    if k == 0 {
        return;
    }
    let full = k.saturating_add(k.max(BLOCK));
    let mut floor = row.floor_of_best(k, maxima).unwrap_or(f32::NEG_INFINITY);
    for (start, block) in row.blocks_from(floor) {
        for (index, chunk) in block.chunks(LANES).enumerate() {
            if !has_any(chunk, |logit| logit >= floor) {
                continue;
            }
            for (offset, &logit) in chunk.iter().enumerate() {
                if logit >= floor && logit > f32::NEG_INFINITY {
                    candidates.push(Candidate::new(start + index * LANES + offset, logit, 0));
                }
            }
        }
        if candidates.len() >= full {
            keep_best(candidates, k);
            floor = row.logits[candidates[k - 1].id()];
        }
    }
    keep_best(candidates, k);
}

/// Drops all but the best `k`; the worst of these is then the last.
pub(super) fn keep_best(candidates: &mut Vec<Candidate>, k: usize) {
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by_key(k - 1, |candidate| candidate.key);
    }
    candidates.truncate(k);
}

/// Puts the best first.
pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by_key(|candidate| candidate.key);
}

/// Fills `candidates` with all logits of at least `floor`, in any order.
pub(super) fn at_least(row: Row<'_>, floor: f32, softmax: Softmax, candidates: &mut Vec<Candidate>) {
    candidates.clear();
    for (start, block) in row.blocks_from(floor) {
        for (index, chunk) in block.chunks(LANES).enumerate() {
            if !has_any(chunk, |logit| logit >= floor) {
                continue;
            }
            // All weights of the chunk at once: vectors again.
            let mut weights = [0; LANES];
            for (weight, &logit) in weights.iter_mut().zip(chunk) {
                *weight = softmax.weight(logit);
            }
            for (offset, (&logit, &weight)) in chunk.iter().zip(&weights).enumerate() {
                if logit >= floor && logit > f32::NEG_INFINITY {
                    candidates.push(Candidate::new(start + index * LANES + offset, logit, weight));
                }
            }
        }
    }
}

/// The sum of the candidates' weights.
pub(super) fn total(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.weight).sum()
}

/// The index of the candidate in whose share `target` falls, when shares are laid out from the best
/// candidate down. Everything before that index is better, everything after it worse.
///
/// `target` is below the total.
pub(super) fn partition_at(candidates: &mut [Candidate], target: u64) -> usize {
    partition_by(candidates, target, |candidate| candidate.key)
}

/// The same for the order of `key`, which is another one for each candidate.
///
/// Quickselect by weight: linear time, and only the last few hundred are sorted.
pub(super) fn partition_by<K: Ord>(
    candidates: &mut [Candidate],
    mut target: u64,
    key: impl Fn(&Candidate) -> K,
) -> usize {
    let (mut low, mut high) = (0, candidates.len());
    while high - low > SORTED {
        let middle = low + (high - low) / 2;
        candidates[low..high].select_nth_unstable_by_key(middle - low, &key);
        let better = total(&candidates[low..middle]);
        if target < better {
            high = middle;
        } else {
            target -= better;
            low = middle;
        }
    }
    candidates[low..high].sort_unstable_by_key(&key);
    for (offset, candidate) in candidates[low..high].iter().enumerate() {
        if target < candidate.weight {
            return low + offset;
        }
        target -= candidate.weight;
    }
    high.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few values, so that ties are common; NaN and infinities among them.
    fn rows() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            8 => (-20i8..20).prop_map(|x| f32::from(x) * 0.5),
            4 => -30.0f32..10.0,
            1 => Just(f32::NAN),
            1 => Just(f32::NEG_INFINITY),
            1 => Just(-0.0f32),
        ];
        prop::collection::vec(value, 1..6000)
    }

    fn sorted_ids(logits: &[f32]) -> Vec<usize> {
        let mut ids: Vec<usize> = (0..logits.len()).filter(|&i| logits[i] > f32::NEG_INFINITY).collect();
        ids.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap_or(std::cmp::Ordering::Equal));
        ids
    }

    proptest! {
        #[test]
        fn argmax_is_the_first_in_order(logits in rows()) {
            let best = sorted_ids(&logits).first().copied();
            prop_assert_eq!(argmax(&logits).map(|(id, _)| id), best);
            prop_assert_eq!(Row::new(&logits, &mut Vec::new()).best().map(|(id, _)| id), best);
        }

        #[test]
        fn top_k_is_a_prefix_of_the_order(logits in rows(), k in 0usize..400) {
            let (mut maxima, mut candidates) = (Vec::new(), Vec::new());
            top_k(Row::new(&logits, &mut maxima), k, &mut Vec::new(), &mut candidates);
            sort(&mut candidates);
            let ids: Vec<usize> = candidates.iter().map(|candidate| candidate.id()).collect();
            let mut expected = sorted_ids(&logits);
            expected.truncate(k);
            prop_assert_eq!(ids, expected);
        }

        #[test]
        fn partition_at_equals_a_linear_walk(logits in rows(), bits in any::<u64>()) {
            let Some((_, max)) = argmax(&logits) else { return Ok(()); };
            let softmax = Softmax::new(max, 3.0);
            let (mut maxima, mut candidates) = (Vec::new(), Vec::new());
            let row = Row::new(&logits, &mut maxima);
            at_least(row, f32::NEG_INFINITY, softmax, &mut candidates);
            let mass = row.mass(softmax);
            prop_assert_eq!(total(&candidates), mass);
            let target = super::super::draw::below(bits, mass);
            let index = partition_at(&mut candidates, target);
            let mut left = target;
            let mut rank = 0;
            for id in sorted_ids(&logits) {
                if left < softmax.weight(logits[id]) {
                    prop_assert_eq!(candidates[index].id(), id);
                    prop_assert_eq!(index, rank);
                    break;
                }
                left -= softmax.weight(logits[id]);
                rank += usize::from(softmax.weight(logits[id]) > 0);
            }
        }
    }

    #[test]
    fn argmax_crosses_blocks() {
        let mut logits = vec![0.0; 5000];
        logits[4999] = 1.0;
        assert_eq!(argmax(&logits), Some((4999, 1.0)));
        logits[1024] = 1.0;
        assert_eq!(argmax(&logits), Some((1024, 1.0)));
        logits[17] = f32::INFINITY;
        assert_eq!(argmax(&logits), Some((17, f32::INFINITY)));
        assert_eq!(argmax(&[]), None);
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), None);
    }

    #[test]
    fn rising_logits_do_not_keep_more_than_k() {
        let logits: Vec<f32> = (0..20_000u16).map(f32::from).collect();
        let (mut maxima, mut candidates) = (Vec::new(), Vec::new());
        top_k(Row::new(&logits, &mut maxima), 3, &mut Vec::new(), &mut candidates);
        sort(&mut candidates);
        let ids: Vec<usize> = candidates.iter().map(|candidate| candidate.id()).collect();
        assert_eq!(ids, [19_999, 19_998, 19_997]);
    }
}
