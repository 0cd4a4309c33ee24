//! What drafts add to a step, by the number of sequences that decode in it and what they draft.
//!
//! The scheduler's clock cannot stand in for this: it is a straight line over rows, and drafts cost in jumps (blocks of
//! rows, second passes, the head). In the simulation, ratios from such lines lose up to 7 % of the throughput, and a line
//! for the level without drafts alone 9 %: where drafts pay, steps without are rare, and a disturbed one counts for long.

use std::collections::BTreeMap;

use super::MAX_DRAFT_TOKENS;

/// Weight of the newest step in an average that has seen many.
const WEIGHT: f64 = 0.1;
/// What is added to the logarithm of a cost that was measured once, in case it was measured too low.
const DOUBT: f64 = 0.2;
/// What a drafted token for every sequence adds to a step, as a share of it, while nothing has been measured.
const UNMEASURED_EXCESS: f64 = 0.25;
/// The part of an unmeasured cost that is hoped for.
const HOPED_SHARE: f64 = 0.5;
/// What each step leaves of a measured cost when it is decided whether to measure it again.
const AGE_DECAY: f64 = 0.9985;
/// Steps without drafts that come first with a new number of sequences.
const MIN_UNDRAFTED: u64 = 2;
/// Steps after which one without drafts is measured again: the cost of the best plan may have been mistaken.
const MAX_UNDRAFTED_AGE: u64 = 128;

/// The drafts of a step without prompt chunks; those that are alike are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    is_head: bool,
    /// Whether all sequences draft: unequal row counts may take several passes.
    is_all: bool,
    /// Tokens of each draft (mean, rounded up).
    len: u8,
}

impl Shape {
    /// `None`: nobody drafts.
    pub(super) fn new(
        num_decoding: usize,
        num_drafting: usize,
        num_rows: usize,
        is_head: bool,
    ) -> Option<Self> {
        if num_drafting == 0 || num_rows == 0 {
            return None;
        }
        let len = num_rows.div_ceil(num_drafting).min(MAX_DRAFT_TOKENS) as u8;
        Some(Self { is_head, is_all: num_drafting >= num_decoding, len })
    }
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
        self.num_samples += 1;
        self.log += self.weight() * surprise;
    }

    /// The weight of the newest of the samples.
    fn weight(&self) -> f64 {
        WEIGHT.max(1.0 / f64::from(self.num_samples))
    }
}

/// Steps of about the same number of sequences.
///
/// The level follows the machine's speed, whatever is drafted. What drafts add is learnt only where a step differs in
/// its drafts from those by which the level is known, so that a change of speed counts for nothing.
#[derive(Debug, Default)]
struct Class {
    num_steps: u64,
    /// Steps without drafts, and when the last was.
    num_undrafted: u64,
    undrafted_at: u64,
    /// Logarithm of the seconds of a step without drafts.
    level: f64,
    /// The drafts of the steps that the level is known by: the last two that were alike.
    known_by: Option<Shape>,
    last: Option<Shape>,
    costs: BTreeMap<Shape, Cost>,
}

impl Class {
    /// Records the logarithm of the seconds of a step.
    fn record(&mut self, shape: Option<Shape>, log: f64) {
        self.num_steps += 1;
        if shape.is_none() {
            self.num_undrafted += 1;
            self.undrafted_at = self.num_steps;
        }
        let expected = shape.map_or(0.0, |shape| self.log_ratio(shape));
        let is_second = std::mem::replace(&mut self.last, shape) == shape;
        if self.num_steps == 1 {
            self.level = log - expected;
            self.known_by = shape;
        }
        let surprise = log - self.level - expected;
        if shape == self.known_by {
            self.level += WEIGHT * surprise;
        } else {
            if let Some(shape) = shape {
                let new = Cost { log: expected, num_samples: 0, measured_at: 0 };
                self.costs.entry(shape).or_insert(new).record(surprise);
            } else if let Some(cost) = self.known_by.and_then(|shape| self.costs.get_mut(&shape)) {
                cost.record(-surprise);
            }
            if is_second {
                self.known_by = shape;
            }
        }
        if let Some(cost) = shape.and_then(|shape| self.costs.get_mut(&shape)) {
            cost.measured_at = self.num_steps;
        }
    }

    /// Logarithm of the ratio to a step without drafts.
    fn log_ratio(&self, shape: Shape) -> f64 {
        self.costs
            .get(&shape)
            .map_or_else(|| (UNMEASURED_EXCESS * f64::from(shape.len)).ln_1p(), |cost| cost.log)
    }

    /// The measured cost and its uncertainty: the best of many uncertain plans is mostly one that was measured too low.
    fn safe_log_ratio(&self, shape: Shape) -> f64 {
        let doubt = self.costs.get(&shape).map_or(0.0, |cost| DOUBT * cost.weight().sqrt());
        self.log_ratio(shape) + doubt
    }

    /// What the cost may be: the longer ago it was measured, the lower.
    fn hoped_log_ratio(&self, shape: Shape) -> f64 {
        let part = self
            .costs
            .get(&shape)
            .map_or(HOPED_SHARE, |cost| AGE_DECAY.powf((self.num_steps - cost.measured_at) as f64));
        self.log_ratio(shape) * part
    }
}

/// What steps cost, by class of the number of decoding sequences.
#[derive(Debug, Default)]
pub(super) struct StepCosts {
    classes: BTreeMap<usize, Class>,
}

impl StepCosts {
    /// Records the time of a step.
    pub(super) fn record(&mut self, num_decoding: usize, shape: Option<Shape>, seconds: f64) {
        let class = self.classes.entry(count_class(num_decoding)).or_default();
        class.record(shape, seconds.max(1e-9).ln());
    }

    /// Whether a step without drafts has to be measured: everything else is judged by it.
    pub(super) fn is_undrafted_due(&self, num_decoding: usize) -> bool {
        self.of(num_decoding, |class| {
            class.num_undrafted < MIN_UNDRAFTED || class.num_steps - class.undrafted_at >= MAX_UNDRAFTED_AGE
        })
    }

    pub(super) fn is_measured(&self, num_decoding: usize, shape: Shape) -> bool {
        self.of(num_decoding, |class| class.costs.contains_key(&shape))
    }

    /// The time of a step relative to one without drafts: at least 1, since drafts make no step shorter. `hopeful`: what
    /// was measured long ago, or never, may cost less.
    pub(super) fn ratio(&self, num_decoding: usize, shape: Shape, hopeful: bool) -> f64 {
        let log = self.of(num_decoding, |class| {
            if hopeful { class.hoped_log_ratio(shape) } else { class.safe_log_ratio(shape) }
        });
        log.max(0.0).exp()
    }

    fn of<T>(&self, num_decoding: usize, read: impl Fn(&Class) -> T) -> T {
        match self.classes.get(&count_class(num_decoding)) {
            Some(class) => read(class),
            None => read(&Class::default()),
        }
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
        costs.of(num_decoding, |class| class.log_ratio(shape)).exp()
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
        assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.05, "{costs:?}");
        assert!(costs.is_measured(1, drafts(1, 1, 2)) && !costs.is_measured(1, drafts(1, 1, 1)));
    }

    #[test]
    fn the_step_without_drafts_is_measured_twice_and_then_now_and_then() {
        let mut costs = StepCosts::default();
        for _ in 0..2 {
            assert!(costs.is_undrafted_due(1));
            costs.record(1, None, 0.020);
        }
        let due: Vec<bool> = (0..200)
            .map(|_| {
                costs.record(1, Some(drafts(1, 1, 2)), 0.030);
                costs.is_undrafted_due(1)
            })
            .collect();
        assert_eq!(due.iter().position(|&due| due), Some(127));
    }

    #[test]
    fn a_disturbed_step_is_soon_forgotten() {
        for disturbed in [Some(drafts(1, 1, 2)), None] {
            let mut costs = measured();
            costs.record(1, disturbed, 0.200);
            record(&mut costs, 20, 0.020, 0.030);
            assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.1, "{costs:?}");
        }
    }

    #[test]
    fn a_first_measurement_that_was_disturbed_is_corrected() {
        let mut costs = StepCosts::default();
        for step in 0..20 {
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
            assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.15, "{costs:?}");
        }
    }

    #[test]
    fn a_ratio_that_changes_is_followed() {
        let mut costs = measured();
        record(&mut costs, 40, 0.020, 0.060);
        assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 3.0).abs() < 0.2, "{costs:?}");
    }

    #[test]
    fn a_cost_that_was_measured_once_is_in_doubt() {
        let mut costs = StepCosts::default();
        let shape = drafts(1, 1, 2);
        costs.record(1, None, 0.020);
        costs.record(1, Some(shape), 0.030);
        assert!(costs.ratio(1, shape, false) > ratio(&costs, 1, shape) * 1.2);
        let costs = measured();
        assert!(costs.ratio(1, shape, false) < ratio(&costs, 1, shape) * 1.07);
    }

    #[test]
    fn what_was_never_measured_or_long_ago_may_cost_less() {
        let mut costs = measured();
        let hoped = |costs: &StepCosts, len| costs.ratio(1, drafts(1, 1, len), true);
        assert!(hoped(&costs, 2) > 1.45 && hoped(&costs, 4) < 1.5, "{costs:?}");
        for _ in 0..5000 {
            costs.record(1, None, 0.020);
        }
        assert!(hoped(&costs, 2) < 1.01);
        assert!((ratio(&costs, 1, drafts(1, 1, 2)) - 1.5).abs() < 0.05);
    }

    #[test]
    fn drafts_never_seem_to_make_a_step_shorter() {
        let mut costs = StepCosts::default();
        for _ in 0..20 {
            costs.record(2, None, 0.020);
            costs.record(2, Some(drafts(2, 1, 2)), 0.015);
        }
        for hopeful in [false, true] {
            assert!(costs.ratio(2, drafts(2, 1, 2), hopeful) >= 1.0);
        }
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
