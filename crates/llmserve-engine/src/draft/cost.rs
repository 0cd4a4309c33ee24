//! What drafts add to a step, by the number of sequences that decode in it and what they draft.
//!
//! The scheduler's clock cannot stand in for this: it is a straight line over rows, and drafts cost in jumps (blocks of
//! rows, second passes, the head). In the simulation, ratios from such lines lose up to 7 % of the throughput, and a line
//! for the level without drafts alone 9 %: where drafts pay, steps without are rare, and a disturbed one counts for long.

use std::collections::BTreeMap;

use super::MAX_DRAFT_TOKENS;

/// Weight of the newest step in an average that has seen many.
const WEIGHT: f64 = 0.1;
/// How far a step that stands out counts, as a difference of logarithms: it may have been disturbed.
const MAX_SURPRISE: f64 = 0.3;
/// Uncertainty (standard deviation of the logarithm) of one measurement.
const NOISE: f64 = 0.1;
/// What a drafted token for every sequence adds to a step, as a share of it, while nothing has been measured.
const UNMEASURED_EXCESS: f64 = 0.25;
/// Uncertainty of an unmeasured cost, in addition to its distance from a measured one.
const UNMEASURED_DEVIATION: f64 = 0.1;

/// The share that stands for all sequences.
const ALL: u8 = 5;

/// The drafts of a step without prompt chunks; those that are alike are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    is_head: bool,
    /// Quarters of the sequences that draft, rounded up, or `ALL`.
    share: u8,
    /// Tokens of each draft (mean, rounded up).
    len: u8,
}

impl Shape {
    /// The plan in which nobody drafts.
    pub(super) fn new(
        num_decoding: usize,
        num_drafting: usize,
        num_rows: usize,
        is_head: bool,
    ) -> Option<Self> {
        if num_drafting == 0 || num_rows == 0 {
            return None;
        }
        let all = num_drafting >= num_decoding;
        let share = if all { ALL } else { (num_drafting * 4).div_ceil(num_decoding) as u8 };
        let len = num_rows.div_ceil(num_drafting).min(MAX_DRAFT_TOKENS) as u8;
        Some(Self { is_head, share, len })
    }
}

/// The time of a step relative to one without drafts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// The step's length relative to one without drafts: at least 1, since drafts make no step shorter.
    pub(super) ratio: f64,
    /// Standard deviation of its logarithm.
    pub(super) deviation: f64,
    pub(super) num_samples: u32,
    /// Steps since the last measurement.
    pub(super) age: u64,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Logarithm of the ratio to a step without drafts.
    log: f64,
    num_samples: u32,
    measured_at: u64,
}

impl Cost {
    /// Records by how much a step differed from what was expected.
    fn record(&mut self, surprise: f64) {
        self.log += match self.num_samples {
            0 => surprise,
            // If two differ, the longer one was disturbed.
            1 if surprise < -MAX_SURPRISE => surprise,
            1 if surprise > MAX_SURPRISE => 0.0,
            num_samples => {
                let weight = WEIGHT.max(1.0 / f64::from(num_samples + 1));
                weight * surprise.clamp(-MAX_SURPRISE, MAX_SURPRISE)
            }
        };
        self.num_samples += 1;
    }
}

/// Steps of about the same number of sequences.
///
/// The level follows the machine's speed, whatever is drafted. What drafts add is learnt only where a step differs in
/// its drafts from those by which the level is known, so that a change of speed counts for nothing.
#[derive(Debug, Default)]
struct Class {
    /// Logarithm of the seconds of a step without drafts; None: nothing was measured.
    level: Option<f64>,
    /// The drafts of the steps that the level is known by.
    known_by: Option<Shape>,
    last: Option<Shape>,
    num_undrafted: u32,
    costs: BTreeMap<Shape, Cost>,
}

impl Class {
    /// Records the logarithm of the seconds of a step, and what its drafts were expected to add.
    fn record(&mut self, shape: Option<Shape>, log: f64, expected: f64, now: u64) {
        self.num_undrafted = self.num_undrafted.saturating_add(u32::from(shape.is_none()));
        let is_second = self.last == shape;
        self.last = shape;
        let Some(level) = &mut self.level else {
            self.level = Some(log - expected);
            self.known_by = shape;
            return;
        };
        let surprise = log - *level - expected;
        if shape == self.known_by {
            *level += WEIGHT * surprise.clamp(-MAX_SURPRISE, MAX_SURPRISE);
        } else {
            if let Some(shape) = shape {
                let new = Cost { log: expected, num_samples: 0, measured_at: now };
                self.costs.entry(shape).or_insert(new).record(surprise);
            } else if let Some(cost) = self.known_by.and_then(|shape| self.costs.get_mut(&shape)) {
                cost.record(-surprise);
            }
            if is_second {
                self.known_by = shape;
            }
        }
        if let Some(cost) = shape.and_then(|shape| self.costs.get_mut(&shape)) {
            cost.measured_at = now;
        }
    }

    /// What drafts add by those that were measured, nearest in share: between two lengths, or in proportion
    /// to one. The logarithm of the ratio and its uncertainty.
    fn derived(&self, shape: Shape) -> Option<(f64, f64)> {
        let of_kind = || self.costs.iter().filter(|(other, _)| other.is_head == shape.is_head);
        let nearest =
            of_kind().map(|(other, _)| other.share).min_by_key(|other| other.abs_diff(shape.share))?;
        let points = of_kind()
            .filter(|(other, _)| other.share == nearest)
            .map(|(other, cost)| (f64::from(other.len), cost.log.max(0.0).exp_m1()));
        let len = f64::from(shape.len);
        let (shorter, longer): (Vec<_>, Vec<_>) = points.partition(|point| point.0 <= len);
        let below = shorter.last().copied().unwrap_or((0.0, 0.0));
        Some(if let Some(above) = longer.first() {
            let part = (len - below.0) / (above.0 - below.0);
            let spread = above.1.ln_1p() - below.1.ln_1p();
            ((below.1 + (above.1 - below.1) * part).ln_1p(), spread.abs() / 2.0)
        } else {
            let log = (below.1 * len / below.0).ln_1p();
            (log, log - below.1.ln_1p())
        })
    }
}

/// Costs of steps that were measured, and what they tell about others.
#[derive(Debug, Default)]
pub(super) struct StepCosts {
    num_steps: u64,
    /// The measurements, by class of the number of decoding sequences.
    classes: BTreeMap<usize, Class>,
}

impl StepCosts {
    /// Records the time of a step.
    pub(super) fn record(&mut self, num_decoding: usize, shape: Option<Shape>, seconds: f64) {
        self.num_steps += 1;
        let expected = shape.map_or(0.0, |shape| self.log_ratio(num_decoding, shape).0);
        let class = self.classes.entry(count_class(num_decoding)).or_default();
        class.record(shape, seconds.max(1e-9).ln(), expected, self.num_steps);
    }

    /// Measured steps without drafts.
    pub(super) fn num_undrafted(&self, num_decoding: usize) -> u32 {
        self.classes.get(&count_class(num_decoding)).map_or(0, |class| class.num_undrafted)
    }

    /// The time of a step, measured or estimated from others.
    pub(super) fn estimate(&self, num_decoding: usize, shape: Shape) -> Estimate {
        let (log, deviation) = self.log_ratio(num_decoding, shape);
        let cost = self.cost(num_decoding, shape);
        Estimate {
            ratio: log.max(0.0).exp(),
            deviation,
            num_samples: cost.map_or(0, |cost| cost.num_samples),
            age: cost.map_or(0, |cost| self.num_steps - cost.measured_at),
        }
    }

    fn cost(&self, num_decoding: usize, shape: Shape) -> Option<&Cost> {
        self.classes.get(&count_class(num_decoding))?.costs.get(&shape)
    }

    /// Logarithm of the ratio to a step without drafts, and its uncertainty.
    fn log_ratio(&self, num_decoding: usize, shape: Shape) -> (f64, f64) {
        if let Some(cost) = self.cost(num_decoding, shape) {
            let weight = WEIGHT.max(1.0 / f64::from(cost.num_samples.max(1)));
            return (cost.log, NOISE * weight.sqrt());
        }
        let wanted = count_class(num_decoding);
        let derived = self.classes.iter().filter_map(|(&count, class)| {
            let (log, deviation) = class.derived(shape)?;
            let doublings = (count as f64 / wanted as f64).log2().abs();
            Some((log, deviation + UNMEASURED_DEVIATION * (1.0 + doublings)))
        });
        derived.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_else(|| {
            let rows = f64::from(shape.len) * f64::from(shape.share) / f64::from(ALL);
            let log = (UNMEASURED_EXCESS * rows).ln_1p();
            (log, log + UNMEASURED_DEVIATION)
        })
    }
}

/// Numbers of sequences that count as the same: each up to 8, then four classes between a number and its double.
fn count_class(num_decoding: usize) -> usize {
    let width = (num_decoding / 4).checked_ilog2().map_or(1, |bits| 1 << bits);
    num_decoding / width * width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafts(num_decoding: usize, num_drafting: usize, len: usize) -> Shape {
        Shape::new(num_decoding, num_drafting, num_drafting * len, true).unwrap()
    }

    fn ratio(costs: &StepCosts, num_decoding: usize, shape: Shape) -> f64 {
        costs.estimate(num_decoding, shape).ratio
    }

    /// Steps of one sequence without and with two drafted tokens in turn.
    fn record(costs: &mut StepCosts, times: usize, undrafted: f64, drafted: f64) {
        for _ in 0..times {
            costs.record(1, None, undrafted);
            costs.record(1, Some(drafts(1, 1, 2)), drafted);
        }
    }

    /// Steps that take 20 ms and 30 ms.
    fn measured() -> StepCosts {
        let mut costs = StepCosts::default();
        record(&mut costs, 20, 0.020, 0.030);
        costs
    }

    #[test]
    fn ratios_are_learnt() {
        let costs = measured();
        let estimate = costs.estimate(1, drafts(1, 1, 2));
        assert!((estimate.ratio - 1.5).abs() < 0.05 && estimate.deviation < 0.05, "{estimate:?}");
        assert!(estimate.num_samples >= 19, "{estimate:?}");
        assert_eq!(costs.num_undrafted(1), 20);
    }

    #[test]
    fn a_disturbed_step_counts_for_little() {
        let mut costs = measured();
        for disturbed in [Some(drafts(1, 1, 2)), None] {
            costs.record(1, disturbed, 0.200);
            costs.record(1, None, 0.020);
            assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.1);
        }
    }

    #[test]
    fn a_first_measurement_that_was_disturbed_is_corrected() {
        let mut costs = StepCosts::default();
        for step in 0..10 {
            costs.record(1, None, 0.020);
            costs.record(1, Some(drafts(1, 1, 1)), if step == 0 { 0.090 } else { 0.025 });
        }
        assert!((ratio(&costs, 1, drafts(1, 1, 1)) - 1.25).abs() < 0.1, "{costs:?}");
    }

    #[test]
    fn another_speed_of_the_machine_leaves_ratios_as_they_are() {
        for only_drafts in [false, true] {
            let mut costs = measured();
            for _ in 0..100 {
                costs.record(1, Some(drafts(1, 1, 2)), 0.060);
                if !only_drafts {
                    costs.record(1, None, 0.040);
                }
            }
            assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.1, "{costs:?}");
        }
    }

    #[test]
    fn a_ratio_that_changes_is_followed() {
        let mut costs = measured();
        record(&mut costs, 40, 0.020, 0.060);
        assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 3.0).abs() < 0.2, "{costs:?}");
    }

    #[test]
    fn what_was_not_measured_lies_between_or_on_the_line_and_is_less_certain() {
        let costs = measured();
        let between = costs.estimate(1, drafts(1, 1, 1));
        assert!((between.ratio - 1.25).abs() < 0.05);
        let beyond = costs.estimate(1, drafts(1, 1, 4));
        assert!((beyond.ratio - 2.0).abs() < 0.1);
        let elsewhere = costs.estimate(8, drafts(8, 8, 2));
        assert!((elsewhere.ratio - 1.5).abs() < 0.05);
        for estimate in [between, beyond, elsewhere] {
            assert_eq!(estimate.num_samples, 0);
            assert!(estimate.deviation > costs.estimate(1, drafts(1, 1, 2)).deviation);
        }
    }

    #[test]
    fn drafts_never_seem_to_make_a_step_shorter() {
        let mut costs = StepCosts::default();
        for _ in 0..20 {
            costs.record(2, None, 0.020);
            costs.record(2, Some(drafts(2, 1, 2)), 0.015);
        }
        assert!(ratio(&costs, 2, drafts(2, 1, 2)) >= 1.0);
    }

    #[test]
    fn numbers_of_sequences_fall_into_classes() {
        let classes: Vec<usize> = [1, 2, 3, 7, 8, 9, 10, 15, 16, 19, 20, 255].map(count_class).to_vec();
        assert_eq!(classes, [1, 2, 3, 7, 8, 8, 10, 14, 16, 16, 20, 224]);
    }

    #[test]
    fn odd_times_are_taken() {
        let mut costs = StepCosts::default();
        for seconds in [0.0, 1e9, 1e-12, 0.02] {
            costs.record(1, None, seconds);
            costs.record(1, Some(drafts(1, 1, 3)), seconds);
            assert!(ratio(&costs, 1, drafts(1, 1, 3)).is_finite());
        }
    }
}
