//! A row of logits with the largest of each block, so that later looks skip most of it.

use super::weight::Softmax;

/// Logits of a block. Small enough that a few hundred of the best tokens lie in a part of the blocks only,
/// large enough that the maxima cost next to nothing.
const BLOCK: usize = 512;
/// Logits per comparison, so that the compiler uses whole vectors.
pub(super) const LANES: usize = 16;

/// A row that is drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f32],
    /// The largest logit of each block; minus infinity for one without any number.
    maxima: &'a [f32],
}

impl<'a> Row<'a> {
    /// Goes through the row once. `maxima` is working memory.
    pub(super) fn new(logits: &'a [f32], maxima: &'a mut Vec<f32>) -> Self {
        maxima.clear();
        maxima.extend(logits.chunks(BLOCK).map(largest));
        Self { logits, maxima }
    }

    /// The index and the value of the largest logit.
    pub(super) fn best(&self) -> Option<(usize, f32)> {
        let best = largest(self.maxima);
        if best > f32::NEG_INFINITY {
            let start = BLOCK * self.maxima.iter().position(|&max| max >= best)?;
            let offset = self.logits[start..].iter().position(|&logit| logit >= best)?;
            Some((start + offset, best))
        } else {
            None
        }
    }

    /// The blocks with a logit of at least `floor`: the index of the first logit, and the logits.
    pub(super) fn blocks_from(&self, floor: f32) -> impl Iterator<Item = (usize, &'a [f32])> {
        let blocks = self.logits.chunks(BLOCK).zip(self.maxima).enumerate();
        blocks.filter(move |(_, (_, max))| **max >= floor).map(|(index, (block, _))| (index * BLOCK, block))
    }

    /// A logit that at least `k` logits reach, close to the k-th largest: as many blocks have one. `None` if
    /// there are too few blocks. `sorted` is working memory.
    pub(super) fn floor_of_best(&self, k: usize, sorted: &mut Vec<f32>) -> Option<f32> {
        sorted.clear();
        sorted.extend(self.maxima);
        let index = k.checked_sub(1).filter(|&index| index < sorted.len())?;
        let (_, floor, _) = sorted.select_nth_unstable_by(index, |a, b| b.total_cmp(a));
        Some(*floor)
    }

    /// The sum of all weights.
    pub(super) fn mass(&self, softmax: Softmax) -> u64 {
        let blocks = self.logits.chunks(BLOCK).zip(self.maxima);
        blocks.map(|(block, &max)| softmax.mass_of(block, max)).sum()
    }
}

/// The largest logit; minus infinity where there is no number.
pub(super) fn largest(logits: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = logits.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, logit);
        }
    }
    // Halves are compared with each other, still in vectors.
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = larger(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    rest.iter().fold(lanes[0], |max, &logit| larger(max, logit))
}
