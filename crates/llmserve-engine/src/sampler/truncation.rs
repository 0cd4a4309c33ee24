//! Truncation of the distribution (`top_k`, then `top_p`, then `min_p`) and the draw from what is
//! left.
//!
//! Each step keeps a number of the best candidates, so the result is always a prefix of their order,
//! and never shorter than `min_tokens_to_keep`.

use super::draw;
use super::row::Row;
use super::select::{self, Candidate};
use super::weight::{ONE, Softmax};
use crate::request::SamplingParams;

/// Octaves below the likeliest token within which candidates are looked for, narrow to wide. The
/// first band nearly always holds what is needed. The result does not depend on the bands.
const BANDS: [f32; 3] = [8.0, 14.0, f32::INFINITY];

/// Working memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) maxima: Vec<f32>,
    pub(super) candidates: Vec<Candidate>,
}

/// The truncation of one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Truncation {
    top_k: Option<usize>,
    top_p: f32,
    min_p: f32,
    /// How many candidates are kept at least: 1 or more.
    keep: usize,
}

impl Truncation {
    /// The truncation by the request's fields.
    pub(super) fn new(params: &SamplingParams) -> Self {
        let keep = (params.min_tokens_to_keep as usize).max(1);
        Self {
            top_k: (params.top_k > 0).then(|| keep.max(params.top_k as usize)),
            top_p: params.top_p,
            min_p: params.min_p,
            keep,
        }
    }

    /// Whether only the likeliest token is left, whatever the logits.
    pub(super) fn is_greedy(&self) -> bool {
        self.top_k == Some(1)
    }

    pub(super) fn has_top_k(&self) -> bool {
        self.top_k.is_some()
    }

    /// Truncates and draws: the id of the candidate that `bits` (64 uniform ones) falls on, when
    /// the kept candidates are laid out from the best down. One logit at least is above minus
    /// infinity, and the largest is the softmax's.
    pub(super) fn draw(&self, row: Row<'_>, softmax: Softmax, bits: u64, memory: &mut Memory) -> usize {
        let Memory { maxima, candidates } = memory;
        let target = match self.top_k {
            Some(k) if k < row.logits.len() => {
                select::top_k(row, k, maxima, candidates);
                for candidate in candidates.iter_mut() {
                    candidate.weight = softmax.weight(row.logits[candidate.id()]);
                }
                self.cut_top_p(candidates, select::total(candidates));
                self.cut_min_p(candidates);
                draw::below(bits, select::total(candidates))
            }
            _ if self.top_p < 1.0 => {
                let mass = row.mass(softmax);
                let wanted = Wanted { mass: self.needed_mass(mass), count: self.keep };
                wanted.gather(row, softmax, &BANDS, candidates);
                self.cut_top_p(candidates, mass);
                self.cut_min_p(candidates);
                draw::below(bits, select::total(candidates))
            }
            _ if self.min_p > 0.0 => {
                let wanted = Wanted { mass: 0, count: self.keep };
                // A little wider than `min_p`, which then cuts by exact weights.
                let bands = [0.01 - self.min_p.log2(), f32::INFINITY];
                wanted.gather(row, softmax, &bands, candidates);
                self.cut_min_p(candidates);
                draw::below(bits, select::total(candidates))
            }
            _ => {
                // Nothing is cut: only the candidates down to the target matter.
                let target = draw::below(bits, row.mass(softmax));
                let wanted = Wanted { mass: target + 1, count: 0 };
                wanted.gather(row, softmax, &BANDS, candidates);
                target
            }
        };
        let index = select::partition_at(candidates, target);
        candidates[index].id()
    }

    /// The share `top_p` of a sum of weights.
    fn needed_mass(&self, mass: u64) -> u64 {
        let needed = (f64::from(self.top_p) * mass as f64).ceil() as u64;
        needed.clamp(1, mass.max(1))
    }

    /// Keeps the smallest prefix with the share `top_p` of `mass`. The candidates have that much.
    fn cut_top_p(&self, candidates: &mut Vec<Candidate>, mass: u64) {
        if self.top_p < 1.0 {
            let kept = select::partition_at(candidates, self.needed_mass(mass) - 1) + 1;
            if kept >= self.keep {
                candidates.truncate(kept);
            } else {
                select::keep_best(candidates, self.keep);
            }
        }
    }

    /// Keeps the candidates with the share `min_p` of the likeliest candidate's weight.
    fn cut_min_p(&self, candidates: &mut Vec<Candidate>) {
        let least = (f64::from(self.min_p) * ONE as f64).ceil() as u64;
        let kept = candidates.iter().filter(|candidate| candidate.weight >= least).count();
        if kept >= self.keep {
            candidates.retain(|candidate| candidate.weight >= least);
        } else {
            select::keep_best(candidates, self.keep);
        }
    }
}

/// How far down the order candidates are needed.
struct Wanted {
    mass: u64,
    count: usize,
}

impl Wanted {
    /// Gathers the narrowest band that is enough. The last band is everything.
    fn gather(&self, row: Row<'_>, softmax: Softmax, bands: &[f32], candidates: &mut Vec<Candidate>) {
        for &octaves in bands {
            select::at_least(row, softmax.logit_below_max(octaves), softmax, candidates);
            if candidates.len() >= self.count && select::total(candidates) >= self.mass {
                return;
            }
        }
    }
}
