//! How many prompt tokens fit into a step without making running streams wait.

use std::time::Duration;

use crate::config::SchedulerConfig;

/// Weight of the newest measurement in a running estimate.
const WEIGHT: f64 = 0.3;
/// Weight of a quiet step that took longer than expected: a step that was disturbed says nothing
/// about the next ones, and would make them all longer.
const RISING_WEIGHT: f64 = 0.1;
/// A chunk grows at most by this factor from one step to the next: a measurement of a small
/// chunk says little about a much larger one.
const MAX_GROWTH: f64 = 2.0;
/// After so many busy steps a quiet one is measured again.
const MAX_BUSY_STEPS: u32 = 32;
/// Prompt tokens of the first chunk while nothing has been measured.
const FIRST_IDLE_CHUNK: f64 = 128.0;
const FIRST_BUSY_CHUNK: f64 = 8.0;

/// A budget in time. What a row costs differs by machine, model and depth, so it is measured: the
/// length of steps that only decode, by the number of their sequences, and what a prompt token adds, apart
/// for steps with and without decoding sequences.
#[derive(Debug)]
pub(crate) struct StepBudget {
    busy_factor: f64,
    idle_step: f64,
    /// Seconds of a step in which so many sequences decode and no prompt is computed; 0: not measured.
    quiet: Vec<f64>,
    /// How much longer than expected the last quiet step took, at least 1: what slows the machine down
    /// often lasts for some steps.
    slowdown: f64,
    /// Busy steps since the last quiet one.
    num_busy: u32,
    busy: ChunkCost,
    idle: ChunkCost,
}

#[derive(Debug, Default)]
struct ChunkCost {
    /// Seconds that a prompt token adds to a step; 0: not measured.
    per_token: f64,
    /// Tokens of the last step's chunks.
    last: f64,
}

impl ChunkCost {
    fn record(&mut self, seconds: f64, tokens: usize) {
        self.last = tokens as f64;
        update(&mut self.per_token, seconds.max(0.0) / self.last, WEIGHT);
    }

    fn tokens_in(&self, seconds: f64, first: f64) -> usize {
        if self.per_token <= 0.0 {
            return first as usize;
        }
        let fitting = seconds / self.per_token;
        // At least one token: a prompt always moves.
        fitting.min(self.last.max(first) * MAX_GROWTH).max(1.0) as usize
    }
}

impl StepBudget {
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        Self {
            busy_factor: f64::from(config.busy_step_factor),
            idle_step: f64::from(config.idle_step_ms) / 1000.0,
            quiet: Vec::new(),
            slowdown: 1.0,
            num_busy: 0,
            busy: ChunkCost::default(),
            idle: ChunkCost::default(),
        }
    }

    /// Prompt tokens that a step in which so many sequences decode may carry. 0: it is to be a quiet one, since
    /// what such a step takes is not known, or not any more.
    /// `spent`: what the step has cost already.
    pub(crate) fn prefill_tokens(&self, num_decoding: usize, spent: Duration) -> usize {
        if num_decoding == 0 {
            return self.idle.tokens_in(self.idle_step, FIRST_IDLE_CHUNK);
        }
        let spent = spent.as_secs_f64();
        match self.quiet.get(num_decoding) {
            Some(&quiet) if quiet > 0.0 && self.num_busy < MAX_BUSY_STEPS => {
                let seconds = (self.busy_factor - 1.0) * quiet / self.slowdown - spent;
                self.busy.tokens_in(seconds.max(0.0), FIRST_BUSY_CHUNK)
            }
            Some(_) | None => 0,
        }
    }

    /// Seconds of a prompt token, as measured.
    pub(crate) fn seconds_per_prompt_token(&self) -> Option<f64> {
        [self.idle.per_token, self.busy.per_token].into_iter().find(|&seconds| seconds > 0.0)
    }

    /// Seconds of the shortest step that only decodes, as measured.
    pub(crate) fn seconds_per_step(&self) -> Option<f64> {
        self.quiet.iter().copied().filter(|&seconds| seconds > 0.0).reduce(f64::min)
    }

    /// Enters what a chunk took that had a step of its own between those of running streams.
    pub(crate) fn record_chunk_beside_streams(&mut self, tokens: usize, took: Duration) {
        self.busy.record(took.as_secs_f64(), tokens);
    }

    /// Enters what a step took.
    pub(crate) fn record(&mut self, num_decoding: usize, prefill_rows: usize, took: Duration) {
        let seconds = took.as_secs_f64();
        match (num_decoding, prefill_rows) {
            (0, 0) => {}
            (0, tokens) => self.idle.record(seconds, tokens),
            (num, 0) => {
                self.num_busy = 0;
                if self.quiet.len() <= num {
                    self.quiet.resize(num + 1, 0.0);
                }
                let quiet = &mut self.quiet[num];
                self.slowdown = if *quiet > 0.0 { (seconds / *quiet).max(1.0) } else { 1.0 };
                let weight = if seconds > *quiet { RISING_WEIGHT } else { WEIGHT };
                update(quiet, seconds, weight);
            }
            (num, tokens) => {
                self.num_busy += 1;
                let quiet = self.quiet.get(num).copied().unwrap_or(0.0);
                self.busy.record(seconds - quiet, tokens);
            }
        }
    }
}

fn update(estimate: &mut f64, measured: f64, weight: f64) {
    *estimate = if *estimate > 0.0 { *estimate + weight * (measured - *estimate) } else { measured };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> StepBudget {
        StepBudget::new(&SchedulerConfig::default())
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_unmeasured_machine_starts_with_small_chunks() {
        let mut budget = budget();
        assert_eq!(budget.prefill_tokens(0, Duration::ZERO), 128);
        assert_eq!(budget.prefill_tokens(4, Duration::ZERO), 0, "a quiet step first");
        budget.record(4, 0, ms(30));
        assert_eq!(budget.prefill_tokens(4, Duration::ZERO), 8);
    }

    #[test]
    fn a_quiet_step_is_measured_again_and_for_each_number_of_rows() {
        let mut budget = budget();
        budget.record(4, 0, ms(30));
        for _ in 0..MAX_BUSY_STEPS {
            assert!(budget.prefill_tokens(4, Duration::ZERO) > 0);
            budget.record(4, 8, ms(60));
        }
        assert_eq!(budget.prefill_tokens(4, Duration::ZERO), 0);
        budget.record(4, 0, ms(30));
        assert!(budget.prefill_tokens(4, Duration::ZERO) > 0);
        assert_eq!(budget.prefill_tokens(5, Duration::ZERO), 0);
    }

    #[test]
    fn a_busy_step_stays_within_its_factor_of_a_quiet_one() {
        let mut budget = budget();
        for _ in 0..30 {
            budget.record(4, 0, ms(30));
            // 5 ms a prompt token: 2.1 x 30 ms hold twelve of them, but for rounding.
            let tokens = budget.prefill_tokens(4, Duration::ZERO);
            budget.record(4, tokens, ms(30 + 5 * tokens as u64));
        }
        assert!((12..=13).contains(&budget.prefill_tokens(4, Duration::ZERO)));
    }

    #[test]
    fn one_disturbed_step_hardly_moves_the_estimate() {
        let mut budget = budget();
        budget.record(4, 0, ms(20));
        budget.record(4, 0, ms(40));
        assert!((budget.quiet[4] - 0.022).abs() < 1e-9);
        budget.record(4, 0, ms(10));
        assert!((budget.quiet[4] - 0.0184).abs() < 1e-9);
    }

    #[test]
    fn a_chunk_after_a_slow_step_is_smaller() {
        let mut budget = budget();
        let chunk = |budget: &mut StepBudget, quiet| {
            budget.record(4, 0, ms(quiet));
            budget.prefill_tokens(4, Duration::ZERO)
        };
        for _ in 0..30 {
            let tokens = chunk(&mut budget, 30);
            budget.record_chunk_beside_streams(tokens, ms(5 * tokens as u64));
        }
        assert_eq!(chunk(&mut budget, 30), 13);
        assert_eq!(chunk(&mut budget, 60), 7, "half of what fits, with the estimate a little raised");
        assert_eq!(chunk(&mut budget, 30), 14);
    }

    #[test]
    fn an_idle_step_fills_its_time() {
        let mut budget = budget();
        for _ in 0..30 {
            let tokens = budget.prefill_tokens(0, Duration::ZERO);
            budget.record(0, tokens, ms(tokens as u64));
        }
        assert!((249..=250).contains(&budget.prefill_tokens(0, Duration::ZERO)));
    }

    #[test]
    fn a_chunk_grows_by_at_most_two_from_step_to_step() {
        let mut budget = budget();
        budget.record(0, 128, ms(1));
        assert_eq!(budget.prefill_tokens(0, Duration::ZERO), 256);
    }

    #[test]
    fn a_prompt_always_moves() {
        let mut budget = budget();
        budget.record(1, 0, ms(1));
        budget.record(1, 1, ms(500));
        assert_eq!(budget.prefill_tokens(1, Duration::ZERO), 1);
    }
}
