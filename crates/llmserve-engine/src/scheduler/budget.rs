//! How many rows prompts may have in the next step, so that nobody who reads waits for long.

use std::time::Duration;

use crate::config::SchedulerConfig;

use super::clock::Clock;

/// A chunk has at least this many rows, however long they take: fewer cost nearly as much each step, and a prompt
/// would hardly move.
const MIN_CHUNK: usize = 16;
/// Rows of the first chunk, while nothing has been measured.
const FIRST_CHUNK: usize = 64;
/// A lone prompt gets at least this many rows a step: with fewer, flash attention on CPUs computes up to twice as
/// many tiles as the rows fill, since each thread's share ends within one.
const LONE_CHUNK: usize = 256;
/// A chunk has at most this many times the rows of what was measured: a small step says little about a much larger one.
const MAX_GROWTH: usize = 4;
/// A whole tile may take this many times as long as a chunk. Parts of one are computed by another kernel, half as
/// dear again over a prompt of 1,700 tokens, and round differently: where prompts and streams fill the machine, that decides
/// how long prompts wait.
const TILE_PATIENCE: f64 = 3.0;
/// Streams that have just begun wait this many times the usual limit for short prompts: those who arrive together begin
/// together. 1.2 s at a time by default, where they would otherwise be slowed down throughout a burst.
const BEGINNER_STALLS: f64 = 8.0;

/// A budget in time. The cost of rows differs by machine, model, depth and load, so it is measured.
#[derive(Debug)]
pub(super) struct StepBudget {
    max_stall: f64,
    idle_step: f64,
    /// Tokens of a tile: chunks end at borders of tiles where the budget allows.
    pub(super) tile: usize,
    /// Whether a chunk has whole tiles however long they take, and nothing else depends on other sequences.
    pub(super) is_deterministic: bool,
    clock: Clock,
    /// How long streams have rested since their last step, in seconds.
    rested: f64,
}

impl StepBudget {
    pub(super) fn new(config: &SchedulerConfig, tile: usize, is_deterministic: bool) -> Self {
        let seconds = |milliseconds: u32| f64::from(milliseconds) / 1000.0;
        Self {
            max_stall: seconds(config.max_stall_ms),
            idle_step: seconds(config.idle_step_ms),
            tile,
            is_deterministic,
            clock: Clock::default(),
            rested: 0.0,
        }
    }

    /// Rows of prompts while nobody generates. With several prompts the first tokens of one come between the chunks
    /// of others.
    pub(super) fn idle_rows(&self, num_prompts: usize) -> usize {
        if num_prompts > 1 {
            self.rows_within(self.max_stall)
        } else {
            self.rows_within(self.idle_step).max(LONE_CHUNK)
        }
    }

    /// Rows of prompts beside `num_decode_rows` of streams, in one step. `spent`: what it has cost already.
    pub(super) fn shared_rows(&self, num_decode_rows: usize, spent: Duration) -> usize {
        let rows = self.rows_within(self.max_stall - spent.as_secs_f64());
        let least = if rows >= self.tile { self.tile.max(MIN_CHUNK) } else { MIN_CHUNK };
        rows.saturating_sub(num_decode_rows).max(least)
    }

    /// Rows that prompts have in a shared step however many rows streams have.
    pub(super) fn least_shared_rows(&self, spent: Duration) -> usize {
        self.shared_rows(usize::MAX, spent)
    }

    /// Rows of prompts in a step for which the streams rest; 0: the streams are due.
    ///
    /// `are_beginners`: the streams have just begun. `spent`: what the step has cost already.
    pub(super) fn turn_rows(&self, num_decode_rows: usize, are_beginners: bool, spent: Duration) -> usize {
        let has_rested = self.have_rested();
        let Some(cost) = self.clock.cost() else {
            return if has_rested { 0 } else { FIRST_CHUNK };
        };
        let own = cost.seconds(num_decode_rows);
        let limit = if are_beginners { BEGINNER_STALLS * self.max_stall } else { self.max_stall };
        let left = limit - own - self.rested - spent.as_secs_f64();
        if !has_rested {
            // At least as long as the streams' own step: prompts have half of the time.
            self.rows_within(left.min(self.max_stall).max(own))
        } else if are_beginners && cost.rows_within(left) >= MIN_CHUNK {
            self.rows_within(left.min(self.max_stall))
        } else {
            0
        }
    }

    /// Whether streams rest now.
    pub(super) fn have_rested(&self) -> bool {
        self.rested > 0.0
    }

    /// Records the time of a step. `is_rest`: streams rested.
    pub(super) fn record(&mut self, rows: usize, is_rest: bool, took: Duration) {
        self.clock.record(rows, took);
        self.rested = if is_rest { self.rested + took.as_secs_f64() } else { 0.0 };
    }

    /// Seconds of a prompt token in a large chunk, if any step was measured.
    pub(super) fn seconds_per_prompt_token(&self) -> Option<f64> {
        let cost = self.clock.cost()?;
        Some(cost.per_row + cost.fixed / 256.0)
    }

    /// Seconds of the shortest step, if any was measured.
    pub(super) fn seconds_per_step(&self) -> Option<f64> {
        Some(self.clock.cost()?.seconds(1))
    }

    /// A step may take as long again as its fixed part, which no smaller chunk would avoid.
    fn rows_within(&self, seconds: f64) -> usize {
        let Some(cost) = self.clock.cost() else {
            return FIRST_CHUNK;
        };
        let seconds = seconds.max(2.0 * cost.fixed);
        let most = MAX_GROWTH * self.clock.largest().max(MIN_CHUNK);
        let rows = cost.rows_within(seconds).clamp(MIN_CHUNK, most);
        let takes_tile = self.is_deterministic || cost.seconds(self.tile) <= TILE_PATIENCE * seconds;
        if rows < self.tile && takes_tile { self.tile } else { rows }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn budget() -> StepBudget {
        StepBudget::new(&SchedulerConfig::default(), 1, false)
    }

    /// A machine on which steps take this.
    struct Machine {
        fixed: f64,
        per_row: f64,
    }

    impl Machine {
        fn step(&self, rows: usize) -> f64 {
            self.fixed + self.per_row * rows as f64
        }

        /// Streams and a prompt without end take turns; the chunk after `num_turns`.
        fn turns(&self, budget: &mut StepBudget, num_decode_rows: usize, num_turns: usize) -> usize {
            let mut chunk = 0;
            for _ in 0..num_turns {
                let took = self.step(num_decode_rows);
                budget.record(num_decode_rows, false, Duration::from_secs_f64(took));
                chunk = budget.turn_rows(num_decode_rows, false, Duration::ZERO);
                let took = self.step(chunk);
                budget.record(chunk, true, Duration::from_secs_f64(took));
            }
            chunk
        }
    }

    #[test]
    fn an_unmeasured_machine_starts_with_one_tile() {
        assert_eq!((budget().idle_rows(1), budget().idle_rows(2)), (LONE_CHUNK, FIRST_CHUNK));
        assert_eq!(budget().turn_rows(4, false, Duration::ZERO), FIRST_CHUNK);
    }

    #[test]
    fn a_gap_keeps_the_limit() {
        for (fixed, per_row) in [(0.006, 0.0015), (0.005, 0.0045), (0.03, 0.0001)] {
            let machine = Machine { fixed, per_row };
            let chunk = machine.turns(&mut budget(), 4, 20);
            let gap = machine.step(4) + machine.step(chunk);
            assert!((0.12..=0.16).contains(&gap) || gap < 0.16 && chunk > 1000, "{gap} s, {chunk} rows");
        }
    }

    #[test]
    fn prompts_have_half_of_the_time_where_streams_take_all_of_it() {
        let machine = Machine { fixed: 0.01, per_row: 0.005 };
        let chunk = machine.turns(&mut budget(), 32, 20);
        assert!((25..=33).contains(&chunk), "{chunk}");
    }

    #[test]
    fn a_fixed_part_beyond_the_limit_does_not_make_chunks_small() {
        let machine = Machine { fixed: 1.0, per_row: 0.004 };
        let chunk = machine.turns(&mut budget(), 1, 20);
        assert!(chunk >= 200, "{chunk}");
    }

    #[test]
    fn a_lone_prompt_fills_a_longer_step() {
        let mut budget = budget();
        for _ in 0..30 {
            let rows = budget.idle_rows(1);
            budget.record(rows, false, Duration::from_secs_f64(0.005 + 0.001 * rows as f64));
        }
        let ms = SchedulerConfig::default().idle_step_ms as usize;
        assert!((ms * 9 / 10..=ms * 11 / 10).contains(&budget.idle_rows(1)));
    }

    #[test]
    fn those_who_arrive_together_begin_together() {
        let mut budget = budget();
        let machine = Machine { fixed: 0.005, per_row: 0.004 };
        machine.turns(&mut budget, 4, 10);
        budget.record(4, false, Duration::from_secs_f64(machine.step(4)));
        let mut rested = 0.0;
        loop {
            let rows = budget.turn_rows(4, true, Duration::ZERO);
            if rows == 0 {
                break;
            }
            let took = machine.step(rows);
            assert!(took < 0.17, "first tokens come between the chunks");
            budget.record(rows, true, Duration::from_secs_f64(took));
            rested += took;
        }
        assert!((1.0..=1.25).contains(&rested), "{rested}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever was measured, chunks are as large as they should be soon after the machine is itself again.
        #[test]
        fn nothing_that_was_measured_traps_it(
            measured in prop::collection::vec((1usize..600, 1e-6f64..30.0, any::<bool>()), 0..200),
            fixed in 0.001f64..0.05,
            per_row in 0.0005f64..0.006,
            num_streams in 1usize..9,
        ) {
            let mut budget = budget();
            for (rows, seconds, is_rest) in measured {
                budget.record(rows, is_rest, Duration::from_secs_f64(seconds));
                prop_assert!(budget.idle_rows(1) >= MIN_CHUNK);
                let rows = budget.turn_rows(num_streams, false, Duration::ZERO);
                prop_assert!(rows == 0 || rows >= MIN_CHUNK);
            }
            let machine = Machine { fixed, per_row };
            let chunk = machine.turns(&mut budget, num_streams, 100);
            let due = ((0.150 - 2.0 * fixed - per_row * num_streams as f64) / per_row) as usize;
            prop_assert!(chunk >= MIN_CHUNK.max(due * 7 / 10), "{} of {}", chunk, due);
        }
    }
}
