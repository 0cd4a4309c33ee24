//! What a step takes, by how many sequences decode in it and what they draft.

use std::collections::BTreeMap;

use super::MAX_DRAFT_TOKENS;
use super::filter::{Filter, Noise, Prior};

/// What a drafted token for every sequence adds to a step, as a share of it, while nothing has been measured.
const UNMEASURED_EXCESS: f64 = 0.25;
/// Limit for measurements by which drafts seem to make a step shorter.
const MIN_EXCESS: f64 = -0.5;
/// Uncertainty (standard deviation of the logarithm) of what was not measured: at all; for this kind of drafts; with another
/// number of sequences, for twice or half of them; with another share of drafting ones.
const UNMEASURED_DEVIATION: f64 = 0.2;
const DERIVED_DEVIATION: f64 = 0.05;
const COUNT_DEVIATION: f64 = 0.2;
const SHARE_DEVIATION: f64 = 0.15;
/// The part of a draft's cost that goes with the number of rows, where only some of the sequences draft.
/// The other part is that of a second pass over the weights.
const ROWS_PART: f64 = 0.5;
/// The class of drafts of all sequences. Below it a class is a quarter of them.
const ALL: u8 = 5;

/// A step without prompt chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) num_decoding: usize,
    pub(super) num_drafting: usize,
    /// Tokens of each draft (mean, rounded up).
    pub(super) draft_len: usize,
    pub(super) is_head: bool,
}

impl Shape {
    pub(super) fn undrafted(num_decoding: usize) -> Self {
        Self { num_decoding, num_drafting: 0, draft_len: 0, is_head: false }
    }

    fn share(self) -> f64 {
        self.num_drafting as f64 / self.num_decoding.max(1) as f64
    }

    fn draft(self) -> Option<Draft> {
        if self.num_drafting == 0 || self.draft_len == 0 {
            return None;
        }
        let share = if self.num_drafting >= self.num_decoding {
            ALL
        } else {
            (self.num_drafting * 4).div_ceil(self.num_decoding) as u8
        };
        Some(Draft { is_head: self.is_head, share, len: self.draft_len.min(MAX_DRAFT_TOKENS) as u8 })
    }
}

/// The kinds of drafts that are measured apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Draft {
    is_head: bool,
    share: u8,
    len: u8,
}

/// What a step takes beside one without drafts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// Natural logarithm of the ratio; at least 0, since drafts make no step shorter.
    pub(super) log_ratio: f64,
    /// The same as measured.
    measured: f64,
    pub(super) variance: f64,
    pub(super) num_samples: u32,
    /// Steps since the last measurement.
    pub(super) age: u64,
    /// Its place among those of this number of sequences, if measured.
    index: Option<usize>,
}

/// Costs of steps that were measured, and what they tell about others.
#[derive(Debug)]
pub(super) struct StepCosts {
    num_steps: u64,
    noise: Noise,
    /// By class of the number of decoding sequences.
    filters: BTreeMap<usize, Filter>,
}

impl StepCosts {
    pub(super) fn new() -> Self {
        Self { num_steps: 0, noise: Noise::new(), filters: BTreeMap::new() }
    }

    /// Enters what a step took.
    pub(super) fn record(&mut self, shape: Shape, seconds: f64) {
        self.num_steps += 1;
        let estimate = self.estimate(shape);
        let prior = Prior {
            draft: shape.draft(),
            log_ratio: estimate.measured,
            variance: estimate.variance,
            share: shape.share(),
        };
        let filter = self.filters.entry(count_class(shape.num_decoding)).or_insert_with(Filter::new);
        filter.record(prior, seconds.max(1e-9).ln(), self.num_steps, &mut self.noise);
    }

    /// What a step takes, measured or by what is known of others.
    pub(super) fn estimate(&self, shape: Shape) -> Estimate {
        let draft = shape.draft();
        let filter = self.filters.get(&count_class(shape.num_decoding));
        if let Some((filter, index)) = filter.and_then(|filter| Some((filter, filter.find(draft)?))) {
            let track = filter.track(index);
            let excess = filter.log_ratio(index).exp_m1() * share_factor(shape.share(), track.share);
            let measured = excess.max(MIN_EXCESS).ln_1p();
            return Estimate {
                log_ratio: measured.max(0.0),
                measured,
                variance: filter.variance(index, 0, self.num_steps),
                num_samples: track.num_samples,
                age: self.num_steps - track.measured_at,
                index: Some(index),
            };
        }
        let excess = match draft {
            Some(draft) => self.excess(shape.num_decoding, draft, shape.share()),
            None => Excess { mean: 0.0, deviation: 0.0 },
        };
        Estimate {
            log_ratio: log_ratio(excess.mean),
            measured: log_ratio(excess.mean),
            variance: excess.deviation.powi(2),
            num_samples: 0,
            age: 0,
            index: None,
        }
    }

    /// Variance of the ratio between two steps of this number of sequences.
    pub(super) fn variance_between(&self, num_decoding: usize, a: &Estimate, b: &Estimate) -> f64 {
        match (self.filters.get(&count_class(num_decoding)), a.index, b.index) {
            (Some(filter), Some(a), Some(b)) => filter.variance(a, b, self.num_steps),
            (_, _, _) => a.variance + b.variance,
        }
    }

    /// What drafts add to a step, by what was measured of other kinds or with another number of sequences.
    fn excess(&self, num_decoding: usize, draft: Draft, share: f64) -> Excess {
        let wanted = (count_class(num_decoding) as f64).ln();
        let nearest = self
            .filters
            .iter()
            .filter_map(|(&count, filter)| {
                Some((measured_excess(filter, draft, share)?, (wanted - (count as f64).ln()).abs()))
            })
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        if let Some((mut excess, distance)) = nearest {
            excess.deviation += COUNT_DEVIATION * distance / std::f64::consts::LN_2;
            return excess;
        }
        let mean = UNMEASURED_EXCESS * f64::from(draft.len) * share;
        Excess { mean, deviation: log_ratio(mean) + UNMEASURED_DEVIATION }
    }
}

/// What drafts add to a step, as a share of the step without: the mean, and the uncertainty of the logarithm of
/// the whole.
#[derive(Debug, Clone, Copy)]
struct Excess {
    mean: f64,
    deviation: f64,
}

/// By the measured drafts of the nearest share: between two lengths, or on the line through one.
fn measured_excess(filter: &Filter, draft: Draft, share: f64) -> Option<Excess> {
    if filter.undrafted().num_samples == 0 {
        return None;
    }
    let of_kind = || filter.drafted().filter(|(key, _, _)| key.is_head == draft.is_head);
    let class = of_kind().map(|(key, _, _)| key.share).min_by_key(|class| class.abs_diff(draft.share))?;
    let mut points: Vec<(f64, f64)> = of_kind()
        .filter(|(key, _, _)| key.share == class)
        .map(|(key, mean, track)| (f64::from(key.len), mean.exp_m1() * share_factor(share, track.share)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let len = f64::from(draft.len);
    let below = points.iter().rev().find(|point| point.0 <= len).copied().unwrap_or((0.0, 0.0));
    let mut excess = if let Some(above) = points.iter().find(|point| point.0 > len) {
        let mean = below.1 + (above.1 - below.1) * (len - below.0) / (above.0 - below.0);
        Excess { mean, deviation: (log_ratio(above.1) - log_ratio(below.1)).abs() / 2.0 }
    } else {
        // No more than in proportion, and no less than what the shorter one adds.
        let mean = below.1 * len / below.0;
        Excess { mean, deviation: (log_ratio(mean) - log_ratio(below.1)).abs() }
    };
    excess.deviation += DERIVED_DEVIATION + if class == draft.share { 0.0 } else { SHARE_DEVIATION };
    Some(excess)
}

/// The logarithm of a step with this excess beside one without. Drafts make no step shorter.
fn log_ratio(excess: f64) -> f64 {
    excess.max(0.0).ln_1p()
}

/// What an excess grows by from one share of drafting sequences to another.
fn share_factor(share: f64, measured: f64) -> f64 {
    if measured > 0.0 { 1.0 - ROWS_PART + ROWS_PART * share / measured } else { 1.0 }
}

/// Numbers of sequences that count as the same: each up to 8, then four classes between a number and its double.
fn count_class(num_decoding: usize) -> usize {
    let width = (num_decoding / 4).checked_ilog2().map_or(1, |bits| 1 << bits);
    num_decoding / width * width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(num_decoding: usize, num_drafting: usize, draft_len: usize) -> Shape {
        Shape { num_decoding, num_drafting, draft_len, is_head: draft_len > 0 }
    }

    fn ratio(costs: &StepCosts, shape: Shape) -> f64 {
        costs.estimate(shape).log_ratio.exp()
    }

    /// Steps without and with drafts in turn, which take 20 ms and 30 ms.
    fn measured() -> StepCosts {
        let mut costs = StepCosts::new();
        for _ in 0..20 {
            costs.record(shape(1, 0, 0), 0.020);
            costs.record(shape(1, 1, 2), 0.030);
        }
        costs
    }

    #[test]
    fn ratios_are_learnt() {
        let costs = measured();
        assert!((ratio(&costs, shape(1, 1, 2)) - 1.5).abs() < 0.05);
        assert_eq!(costs.estimate(shape(1, 1, 2)).num_samples, 20);
        assert!(costs.estimate(shape(1, 1, 2)).variance.sqrt() < 0.05);
    }

    #[test]
    fn a_disturbed_step_counts_for_nothing() {
        let mut costs = measured();
        for disturbed in [shape(1, 1, 2), shape(1, 0, 0)] {
            costs.record(disturbed, 0.200);
            costs.record(shape(1, 0, 0), 0.020);
            assert!((ratio(&costs, shape(1, 1, 2)) - 1.5).abs() < 0.05);
        }
    }

    #[test]
    fn a_first_measurement_that_was_disturbed_is_corrected() {
        let mut costs = StepCosts::new();
        for step in 0..10 {
            costs.record(shape(1, 0, 0), 0.020);
            costs.record(shape(1, 1, 1), if step == 0 { 0.090 } else { 0.025 });
        }
        assert!((ratio(&costs, shape(1, 1, 1)) - 1.25).abs() < 0.1, "{}", ratio(&costs, shape(1, 1, 1)));
    }

    #[test]
    fn another_speed_of_the_machine_leaves_ratios_as_they_are() {
        for only_drafts in [false, true] {
            let mut costs = measured();
            for _ in 0..100 {
                costs.record(shape(1, 1, 2), 0.060);
                if !only_drafts {
                    costs.record(shape(1, 0, 0), 0.040);
                }
            }
            assert!((ratio(&costs, shape(1, 1, 2)) - 1.5).abs() < 0.1);
        }
    }

    #[test]
    fn a_ratio_that_changes_is_followed() {
        let mut costs = measured();
        for _ in 0..40 {
            costs.record(shape(1, 0, 0), 0.020);
            costs.record(shape(1, 1, 2), 0.060);
        }
        assert!((ratio(&costs, shape(1, 1, 2)) - 3.0).abs() < 0.2, "{}", ratio(&costs, shape(1, 1, 2)));
    }

    #[test]
    fn what_was_not_measured_lies_between_or_on_the_line_and_is_less_certain() {
        let costs = measured();
        let between = costs.estimate(shape(1, 1, 1));
        assert!((between.log_ratio.exp() - 1.25).abs() < 0.05);
        let beyond = costs.estimate(shape(1, 1, 4));
        assert!((beyond.log_ratio.exp() - 2.0).abs() < 0.1);
        let elsewhere = costs.estimate(shape(8, 8, 2));
        assert!((elsewhere.log_ratio.exp() - 1.5).abs() < 0.05);
        for estimate in [between, beyond, elsewhere] {
            assert_eq!(estimate.num_samples, 0);
            assert!(estimate.variance > costs.estimate(shape(1, 1, 2)).variance);
        }
    }

    #[test]
    fn drafts_never_seem_to_make_a_step_shorter() {
        let mut costs = StepCosts::new();
        for _ in 0..20 {
            costs.record(shape(2, 0, 0), 0.020);
            costs.record(shape(2, 1, 2), 0.015);
        }
        assert!(ratio(&costs, shape(2, 1, 2)) >= 1.0);
    }

    #[test]
    fn numbers_of_sequences_fall_into_classes() {
        let classes: Vec<usize> = [1, 2, 3, 7, 8, 9, 10, 15, 16, 19, 20, 255].map(count_class).to_vec();
        assert_eq!(classes, [1, 2, 3, 7, 8, 8, 10, 14, 16, 16, 20, 224]);
    }

    #[test]
    fn odd_times_are_taken() {
        let mut costs = StepCosts::new();
        for seconds in [0.0, 1e9, 1e-12, 0.02] {
            costs.record(shape(1, 0, 0), seconds);
            costs.record(shape(1, 1, 3), seconds);
            assert!(ratio(&costs, shape(1, 1, 3)).is_finite());
        }
    }
}
