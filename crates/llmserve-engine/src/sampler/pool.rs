//! The tokens that may still be drawn at a position, and their weights.
//!
//! As long as nothing is cut, they are the row itself. The first cut gathers candidates, and only as many as it
//! needs: mostly a few of a large vocabulary. The best candidate always weighs [`ONE`].

use super::draw;
use super::row::Row;
use super::select::{self, Candidate};
use super::weight::{ONE, Softmax};
use crate::ids::TokenId;

/// Octaves below the likeliest token within which candidates are looked for, narrow to wide. The
/// first band nearly always holds what is needed. The result does not depend on the bands.
const BANDS: [f32; 3] = [8.0, 14.0, f32::INFINITY];

/// Working memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) maxima: Vec<f32>,
    pub(super) candidates: Vec<Candidate>,
    /// Candidates as they were before a change that does not count for their surprise.
    before: Vec<Candidate>,
}

/// What a draw hit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) id: usize,
    /// The negative logarithm to base 2 of its probability among the tokens that were left.
    pub(super) surprise: f64,
}

/// The tokens that are left, as the samplers cut them.
pub(super) struct Pool<'a> {
    row: Row<'a>,
    memory: &'a mut Memory,
    /// Whether the candidates are gathered; if not, they are the row.
    is_gathered: bool,
    temperature: f32,
    softmax: Softmax,
    /// What weighs the candidates before the change, if there was one.
    softmax_before: Option<Softmax>,
    /// How many candidates every cut keeps at least: 1 or more.
    keep: usize,
}

impl<'a> Pool<'a> {
    /// All tokens of a row whose largest logit, above minus infinity, is `max`.
    pub(super) fn new(row: Row<'a>, max: f32, keep: usize, memory: &'a mut Memory) -> Self {
        let temperature = 1.0;
        let softmax = Softmax::new(max, temperature);
        Self { row, memory, is_gathered: false, temperature, softmax, softmax_before: None, keep }
    }

    /// Divides the logits by a temperature. 0 keeps only the likeliest token.
    pub(super) fn heat(&mut self, temperature: f32) {
        if temperature > 0.0 {
            self.temperature *= temperature;
            self.weigh();
        } else {
            self.keep_best(1);
        }
    }

    /// Keeps the best `k`.
    pub(super) fn keep_best(&mut self, k: usize) {
        if self.is_gathered {
            select::keep_best(&mut self.memory.candidates, k);
        } else if k < self.row.logits.len() {
            let Memory { maxima, candidates, .. } = &mut *self.memory;
            select::top_k(self.row, k, maxima, candidates);
            self.is_gathered = true;
            self.weigh();
        }
    }

    /// Keeps the smallest number of the best with a share of the probability.
    pub(super) fn keep_share(&mut self, share: f32) {
        let mass = self.mass();
        if !self.is_gathered {
            self.gather(&BANDS, needed(share, mass), self.keep);
        }
        let candidates = &mut self.memory.candidates;
        let kept = select::partition_at(candidates, needed(share, mass) - 1) + 1;
        if kept >= self.keep {
            candidates.truncate(kept);
        } else {
            select::keep_best(candidates, self.keep);
        }
    }

    /// Keeps what has at least a share of the likeliest candidate's probability.
    pub(super) fn keep_above(&mut self, share: f32) {
        if !self.is_gathered {
            // A little wider than the share, by which exact weights are cut then.
            self.gather(&[0.01 - share.log2(), f32::INFINITY], 0, self.keep);
        }
        let least = (f64::from(share) * ONE as f64).ceil() as u64;
        self.keep_where(|candidate, _| candidate.weight >= least);
    }

    /// Keeps what is at most so surprising: `-log2` of its probability.
    pub(super) fn keep_surprise(&mut self, bits: f64) {
        let octaves = (bits - log2_of(self.mass())) as f32;
        if !self.is_gathered {
            // A little wider again.
            self.gather(&[octaves.max(0.0) + 0.01, f32::INFINITY], 0, self.keep);
        }
        self.keep_where(|candidate, softmax| softmax.octaves(candidate.logit()) <= octaves);
    }

    /// Keeps the logits of at least `floor`.
    pub(super) fn keep_from(&mut self, floor: f32) {
        if !self.is_gathered {
            select::at_least(self.row, floor, self.softmax, &mut self.memory.candidates);
            if self.memory.candidates.len() < self.keep {
                return self.keep_best(self.keep);
            }
            self.is_gathered = true;
        }
        self.keep_where(|candidate, _| candidate.logit() >= floor);
    }

    /// Keeps the best for which a condition holds that holds for everything better, too.
    fn keep_where(&mut self, is_kept: impl Fn(&Candidate, Softmax) -> bool) {
        let (softmax, candidates) = (self.softmax, &mut self.memory.candidates);
        let kept = candidates.iter().filter(|candidate| is_kept(candidate, softmax)).count();
        if kept >= self.keep {
            candidates.retain(|candidate| is_kept(candidate, softmax));
        } else {
            select::keep_best(candidates, self.keep);
        }
    }

    /// Cuts or changes the candidates, given with what weighs them and the least number to keep. All of them are
    /// gathered for that, and the weights are those of the likeliest that is left.
    pub(super) fn cut(&mut self, cut: impl FnOnce(&mut Vec<Candidate>, Softmax, usize)) {
        self.gather_all();
        cut(&mut self.memory.candidates, self.softmax, self.keep);
        self.weigh();
    }

    /// Changes logits, which have been divided by the temperature.
    pub(super) fn change(&mut self, change: impl Fn(&Candidate, f32) -> f32) {
        self.gather_all();
        for candidate in &mut self.memory.candidates {
            let logit = candidate.logit();
            let divided =
                if logit.is_finite() { (logit / self.temperature).clamp(f32::MIN, f32::MAX) } else { logit };
            *candidate = candidate.with_logit(change(candidate, divided));
        }
        self.temperature = 1.0;
        self.weigh();
    }

    /// Changes logits by the probabilities, which are those that a draw's surprise is measured by. The last change.
    pub(super) fn change_by_probability(&mut self, change: impl Fn(f64) -> f32) {
        self.gather_all();
        let mass = self.mass() as f64;
        let Memory { candidates, before, .. } = &mut *self.memory;
        before.clone_from(candidates);
        self.softmax_before = Some(self.softmax);
        for candidate in candidates {
            *candidate = candidate.with_logit(change(candidate.weight as f64 / mass));
        }
        self.temperature = 1.0;
        self.weigh();
    }

    /// All candidates, with what weighs them.
    pub(super) fn all(&mut self) -> (&[Candidate], Softmax) {
        self.gather_all();
        (&self.memory.candidates, self.softmax)
    }

    /// The logits of the candidates; of a row that was not cut, those of minus infinity and NaN, too.
    pub(super) fn logits(&self) -> impl Iterator<Item = f32> {
        let row = if self.is_gathered { &[] } else { self.row.logits };
        let gathered = if self.is_gathered { &self.memory.candidates[..] } else { &[] };
        row.iter().copied().chain(gathered.iter().map(|candidate| candidate.logit()))
    }

    /// At most `count` of the best, in order, with what weighs them.
    pub(super) fn best(&mut self, count: usize) -> (&[Candidate], Softmax) {
        let Memory { maxima, candidates, .. } = &mut *self.memory;
        if !self.is_gathered {
            select::top_k(self.row, count, maxima, candidates);
        }
        select::sort(candidates);
        (&candidates[..count.min(candidates.len())], self.softmax)
    }

    /// The number of tokens in the vocabulary.
    pub(super) fn vocabulary_size(&self) -> usize {
        self.row.logits.len()
    }

    /// The likeliest of some tokens by the row, whatever has been cut of it; `None` if all are banned.
    pub(super) fn best_of(&self, tokens: &[TokenId]) -> Option<Candidate> {
        let ids = tokens.iter().filter_map(|token| usize::try_from(token.0).ok());
        let logits = ids.filter_map(|id| Some((id, *self.row.logits.get(id)?)));
        let allowed = logits.filter(|(_, logit)| *logit > f32::NEG_INFINITY);
        allowed.map(|(id, logit)| Candidate::new(id, logit, 0)).min_by_key(|candidate| candidate.key)
    }

    /// The largest logit that is left.
    pub(super) fn max(&self) -> f32 {
        self.softmax.max()
    }

    /// The sum of all weights.
    pub(super) fn mass(&self) -> u64 {
        if self.is_gathered { select::total(&self.memory.candidates) } else { self.row.mass(self.softmax) }
    }

    /// Draws: the candidate that `bits` (64 uniform ones) falls on, when all of them are laid out from the best
    /// down.
    pub(super) fn draw(&mut self, bits: u64) -> Hit {
        let mass = self.mass();
        let target = draw::below(bits, mass);
        if !self.is_gathered {
            // Only the candidates down to the target matter.
            self.gather(&BANDS, target + 1, 0);
        }
        let candidates = &mut self.memory.candidates;
        let index = select::partition_at(candidates, target);
        let hit = candidates[index];
        let surprise = self
            .surprise_before(hit)
            .unwrap_or_else(|| f64::from(self.softmax.octaves(hit.logit())) + log2_of(mass));
        Hit { id: hit.id(), surprise }
    }

    /// The surprise of a candidate before the change that does not count; `None` without one.
    fn surprise_before(&self, hit: Candidate) -> Option<f64> {
        let softmax = self.softmax_before?;
        let before = &self.memory.before;
        let known = before.iter().find(|candidate| candidate.id() == hit.id())?;
        Some(f64::from(softmax.octaves(known.logit())) + log2_of(select::total(before)))
    }

    /// Gathers the narrowest band that has a sum of weights and a number of candidates. The last band is
    /// everything.
    fn gather(&mut self, bands: &[f32], mass: u64, count: usize) {
        let candidates = &mut self.memory.candidates;
        for &octaves in bands {
            select::at_least(self.row, self.softmax.logit_below_max(octaves), self.softmax, candidates);
            if candidates.len() >= count && select::total(candidates) >= mass {
                break;
            }
        }
        self.is_gathered = true;
    }

    fn gather_all(&mut self) {
        if !self.is_gathered {
            self.gather(&[f32::INFINITY], 0, 0);
        }
    }

    /// Weighs the candidates again, after a change of them or of the temperature.
    fn weigh(&mut self) {
        if !self.is_gathered {
            self.softmax = Softmax::new(self.softmax.max(), self.temperature);
            return;
        }
        let candidates = &mut self.memory.candidates;
        if let Some(best) = candidates.iter().min_by_key(|candidate| candidate.key) {
            self.softmax = Softmax::new(best.logit(), self.temperature);
        }
        for candidate in candidates {
            candidate.weight = self.softmax.weight(candidate.logit());
        }
    }
}

/// A share of a sum of weights.
pub(super) fn needed(share: f32, mass: u64) -> u64 {
    ((f64::from(share) * mass as f64).ceil() as u64).clamp(1, mass.max(1))
}

/// The logarithm to base 2 of a sum of weights, of which the largest is 1.
pub(super) fn log2_of(mass: u64) -> f64 {
    (mass as f64 / ONE as f64).log2()
}
