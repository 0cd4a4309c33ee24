//! How long a step takes by its rows, learnt from the steps that were computed.

use std::time::Duration;

/// Classes of row counts, each up to twice as many as the one before: 1, 2, 3-4, 5-8, and so on.
const NUM_CLASSES: usize = 20;
/// Weight of the newest measurement in the average of its class.
const WEIGHT: f64 = 0.3;
/// A measurement counts as at most this many times its class's average: one disturbed step says little about the next
/// ones.
const MAX_SURPRISE: f64 = 3.0;
/// After this many further steps a measurement has half its weight: depth and the machine's load change what rows cost.
const HALF_LIFE: f64 = 16.0;
/// About the size of the fixed part on an idle machine, in rows: it only weighs small steps against large ones.
const FIXED_AS_ROWS: f64 = 8.0;
/// A class that has not been measured for this many steps counts for nothing.
const MAX_AGE: u64 = 128;

/// Steps of about the same number of rows.
#[derive(Debug, Default, Clone, Copy)]
struct Class {
    /// Averages of the steps; 0 seconds: none was measured.
    rows: f64,
    seconds: f64,
    /// The step that was measured last.
    last: u64,
}

/// The cost of steps: a fixed part (weights are read, threads meet) and a part for each row.
///
/// The fixed part must be separate. If it grows, on a crowded machine or in a throttled container, a cost in
/// proportion to rows would blame the rows, make chunks smaller, and each row still more expensive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepCost {
    /// Seconds of the fixed part.
    pub(super) fixed: f64,
    /// Seconds that each row adds; above 0.
    pub(super) per_row: f64,
}

impl StepCost {
    /// Seconds that a step of `rows` takes.
    pub(super) fn seconds(&self, rows: usize) -> f64 {
        self.fixed + self.per_row * rows as f64
    }

    /// Rows of a step that takes `seconds`.
    pub(super) fn rows_within(&self, seconds: f64) -> usize {
        ((seconds - self.fixed) / self.per_row).max(0.0) as usize
    }
}

/// Learns what steps cost.
#[derive(Debug, Default)]
pub(super) struct Clock {
    classes: [Class; NUM_CLASSES],
    /// Steps measured so far.
    step: u64,
}

impl Clock {
    /// Records the time of a step of `rows` rows.
    pub(super) fn record(&mut self, rows: usize, took: Duration) {
        let expected = self.cost().map(|cost| cost.seconds(rows));
        let Some(class) = self.classes.get_mut(class_of(rows)) else {
            return;
        };
        self.step += 1;
        // A step that took no measurable time would make the cost of rows vanish.
        let seconds = took.as_secs_f64().max(1e-7);
        let is_known = class.seconds > 0.0 && self.step - class.last <= MAX_AGE;
        // The line is less certain than the class.
        let most =
            if is_known { Some(class.seconds) } else { expected.map(|seconds| MAX_SURPRISE * seconds) };
        let seconds = most.map_or(seconds, |most| seconds.min(MAX_SURPRISE * most));
        // What disturbs a step makes it longer, never shorter: one that was much shorter replaces all before.
        let weight = if is_known && seconds > 0.5 * class.seconds { WEIGHT } else { 1.0 };
        class.seconds += weight * (seconds - class.seconds);
        class.rows += weight * (rows as f64 - class.rows);
        class.last = self.step;
    }

    /// The line through the measured classes; `None` before the first step.
    ///
    /// The cost by weighted least squares, such that small steps and large ones count alike.
    pub(super) fn cost(&self) -> Option<StepCost> {
        let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for class in self.of_late() {
            let age = (self.step - class.last) as f64;
            let scale = class.rows + FIXED_AS_ROWS;
            let weight = (-age / HALF_LIFE).exp2() / (scale * scale);
            n += weight;
            x += weight * class.rows;
            y += weight * class.seconds;
            xx += weight * class.rows * class.rows;
            xy += weight * class.rows * class.seconds;
        }
        if n == 0.0 {
            return None;
        }
        let (mean_x, mean_y) = (x / n, y / n);
        let variance = xx / n - mean_x * mean_x;
        // The cost of a row if there is no fixed part, which is also its upper bound.
        let most = xy / xx;
        // One class says nothing about the fixed part.
        let slope =
            if variance > 1e-3 * mean_x * mean_x { (xy / n - mean_x * mean_y) / variance } else { most };
        // Noise can make more rows look cheaper.
        let per_row = slope.clamp(most / 64.0, most);
        Some(StepCost { fixed: (mean_y - per_row * mean_x).max(0.0), per_row })
    }

    /// Rows of the largest steps that were measured lately.
    pub(super) fn largest(&self) -> usize {
        self.of_late().map(|class| class.rows as usize).max().unwrap_or(0)
    }

    fn of_late(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().filter(|class| class.seconds > 0.0 && self.step - class.last <= MAX_AGE)
    }
}

fn class_of(rows: usize) -> usize {
    rows.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Steps of decode rows and of chunks in turns, on a machine of this cost.
    fn measured(steps: usize, fixed: f64, per_row: f64) -> Clock {
        let mut clock = Clock::default();
        for _ in 0..steps {
            for rows in [4, 64] {
                clock.record(rows, seconds(fixed + per_row * rows as f64));
            }
        }
        clock
    }

    fn assert_near(cost: Option<StepCost>, fixed: f64, per_row: f64) {
        let cost = cost.unwrap();
        assert!((cost.fixed - fixed).abs() <= 0.05 * (fixed + per_row), "{cost:?}");
        assert!((cost.per_row - per_row).abs() <= 0.05 * per_row, "{cost:?}");
    }

    #[test]
    fn nothing_is_known_before_the_first_step() {
        assert_eq!(Clock::default().cost(), None);
    }

    #[test]
    fn one_size_of_steps_is_taken_as_in_proportion() {
        let mut clock = Clock::default();
        clock.record(4, seconds(0.02));
        assert_near(clock.cost(), 0.0, 0.005);
    }

    #[test]
    fn the_fixed_part_is_told_apart() {
        assert_near(measured(3, 0.006, 0.0015).cost(), 0.006, 0.0015);
        assert_near(measured(3, 0.4, 0.002).cost(), 0.4, 0.002);
    }

    #[test]
    fn a_step_that_was_disturbed_hardly_counts() {
        let mut clock = measured(8, 0.006, 0.002);
        clock.record(64, seconds(20.0));
        let cost = clock.cost().unwrap();
        assert!(cost.seconds(64) < 2.0 * (0.006 + 0.002 * 64.0), "{cost:?}");
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut clock = measured(20, 0.006, 0.002);
        for _ in 0..20 {
            for rows in [4, 64] {
                clock.record(rows, seconds(0.5 + 0.002 * rows as f64));
            }
        }
        let cost = clock.cost().unwrap();
        assert!(cost.fixed > 0.4 && cost.per_row < 0.004, "{cost:?}");
    }

    #[test]
    fn rows_always_cost_something() {
        let mut clock = Clock::default();
        for _ in 0..5 {
            clock.record(1, seconds(0.02));
            clock.record(256, seconds(0.01));
            clock.record(8, Duration::ZERO);
        }
        let cost = clock.cost().unwrap();
        assert!(cost.per_row > 0.0 && cost.fixed >= 0.0 && cost.rows_within(0.1) < 1_000_000, "{cost:?}");
    }

    #[test]
    fn classes_double() {
        assert_eq!([1, 2, 3, 4, 5, 512, 513].map(class_of), [0, 1, 2, 2, 3, 9, 10]);
        Clock::default().record(usize::MAX / 4, seconds(1.0));
    }
}
