//! Generations on machines of known cost with text of known predictability, without time.

mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use super::acceptance::Acceptance;
use super::candidate::DraftCandidate;
use super::controller::{DraftController, DraftStep};

/// Seconds of a step without drafts.
const STEP: f64 = 0.02;
/// Tokens of each sequence before their number changes.
const PHASE_TOKENS: usize = 150;

/// What a step takes, by the rows of all sequences and the length of the drafts.
#[derive(Debug, Clone, Copy)]
enum Machine {
    /// The weights are read once for up to four rows.
    FreeRows,
    /// Each row costs as much as the first.
    FullRows,
    /// Each row after the first costs 0.3 of it.
    LinearRows,
    /// Rows are nearly free, but unequal row counts are computed in two passes.
    Passes,
    /// Eight rows at a time.
    Blocks,
    /// Nearly free rows, and a head that takes 0.3 of a step for each token.
    DearHead,
}

const MACHINES: [Machine; 6] = [
    Machine::FreeRows,
    Machine::FullRows,
    Machine::LinearRows,
    Machine::Passes,
    Machine::Blocks,
    Machine::DearHead,
];

impl Machine {
    fn seconds(self, num_decoding: usize, drafts: &[usize]) -> f64 {
        let rows = (num_decoding + drafts.iter().sum::<usize>()) as f64;
        let longest = drafts.iter().max().copied().unwrap_or(0) as f64;
        STEP * match self {
            Self::FreeRows => (rows / 4.0).max(1.0),
            Self::FullRows => rows,
            Self::LinearRows => 0.7 + 0.3 * rows,
            Self::Passes => {
                let passes = if !drafts.is_empty() && drafts.len() < num_decoding { 2.0 } else { 1.0 };
                passes + 0.04 * rows
            }
            Self::Blocks => (rows / 8.0).ceil(),
            Self::DearHead => 1.0 + 0.05 * rows + 0.3 * longest,
        }
    }
}

/// Equal numbers for equal seeds (splitmix64).
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    /// Uniform from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, with mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// How likely a draft's next token is right.
#[derive(Debug, Clone, Copy)]
enum Text {
    Steady(f64),
    /// The rates in turn, for that many tokens each.
    Drifting([f64; 2], usize),
    /// Every other sequence.
    Mixed([f64; 2]),
}

impl Text {
    fn rate(self, sequence: usize, num_tokens: usize) -> f64 {
        match self {
            Self::Steady(rate) => rate,
            Self::Drifting(rates, period) => rates[num_tokens / period % 2],
            Self::Mixed(rates) => rates[sequence % 2],
        }
    }
}

/// How much longer a step takes than it should.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// Deviation of the logarithm.
    Noise(f64),
    /// One step in this many takes three times as long.
    Spikes(usize),
    /// Half speed in every other period of this many seconds.
    HalfSpeed(f64),
    /// One step in this many, at random, takes thirty times as long.
    Pauses(usize),
    /// The first step of each batch shape takes five times as long.
    SlowStarts,
}

#[derive(Debug, Clone, Copy)]
struct Scenario {
    machine: Machine,
    text: Text,
    /// Sequences at a time. More than one number: in turn, for `PHASE_TOKENS` of each sequence.
    counts: &'static [usize],
    /// Tokens of a sequence; the next one follows.
    num_tokens: usize,
    max: usize,
    /// How often there is a draft.
    found: f64,
    is_head: bool,
    disturbance: Disturbance,
}

impl Scenario {
    fn new(machine: Machine, text: Text, counts: &'static [usize]) -> Self {
        Self {
            machine,
            text,
            counts,
            num_tokens: 400,
            max: 3,
            found: 1.0,
            is_head: true,
            disturbance: Disturbance::Noise(0.1),
        }
    }
}

#[derive(Debug)]
struct Running {
    number: usize,
    acceptance: Acceptance,
    num_tokens: usize,
}

#[derive(Debug, Clone, Copy)]
enum Policy {
    Fixed(usize),
    Adaptive,
}

#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    tokens: usize,
    /// The time without disturbances, so that ratios compare.
    seconds: f64,
    drafted: usize,
}

impl Outcome {
    fn rate(self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

#[derive(Debug)]
struct Simulation {
    scenario: Scenario,
    policy: Policy,
    numbers: Numbers,
    controller: DraftController,
    running: Vec<Running>,
    num_begun: usize,
    num_steps: usize,
    /// Batch shapes that were computed.
    seen: BTreeSet<(usize, Vec<usize>)>,
    /// Index of the number of sequences, and the tokens left with it.
    phase: (usize, usize),
    /// Seconds with disturbances.
    clock: f64,
    outcome: Outcome,
}

impl Simulation {
    fn new(scenario: Scenario, policy: Policy) -> Self {
        Self {
            scenario,
            policy,
            numbers: Numbers(7),
            controller: DraftController::new(),
            running: Vec::new(),
            num_begun: 0,
            num_steps: 0,
            seen: BTreeSet::new(),
            phase: (0, 0),
            clock: 0.0,
            outcome: Outcome::default(),
        }
    }

    /// Runs until there are `tokens` more.
    fn run(&mut self, tokens: usize) -> Outcome {
        let before = self.outcome;
        while self.outcome.tokens - before.tokens < tokens {
            self.step();
        }
        Outcome {
            tokens: self.outcome.tokens - before.tokens,
            seconds: self.outcome.seconds - before.seconds,
            drafted: self.outcome.drafted - before.drafted,
        }
    }

    /// Brings the running sequences to their number.
    fn admit(&mut self) {
        let counts = self.scenario.counts;
        let (index, tokens_left) = &mut self.phase;
        if *tokens_left == 0 {
            *index = (*index + 1) % counts.len();
            *tokens_left = PHASE_TOKENS * counts[*index];
        }
        let count = counts[*index];
        let num_tokens = self.scenario.num_tokens;
        self.running.retain(|sequence| sequence.num_tokens < num_tokens);
        self.running.truncate(count);
        while self.running.len() < count {
            let acceptance = self.controller.acceptance(self.scenario.is_head);
            self.running.push(Running { number: self.num_begun, acceptance, num_tokens: 0 });
            self.num_begun += 1;
        }
    }

    fn lens(&mut self) -> Vec<usize> {
        let scenario = &self.scenario;
        let candidates: Vec<DraftCandidate<'_>> = self
            .running
            .iter()
            .map(|sequence| DraftCandidate {
                acceptance: &sequence.acceptance,
                max: scenario.max.min(scenario.num_tokens - sequence.num_tokens - 1),
                adaptive: true,
                is_head: scenario.is_head,
            })
            .collect();
        match self.policy {
            Policy::Fixed(len) => candidates.iter().map(|candidate| len.min(candidate.max)).collect(),
            Policy::Adaptive => self.controller.choose(&candidates, true),
        }
    }

    fn step(&mut self) {
        self.admit();
        self.num_steps += 1;
        let lens = self.lens();
        let (mut drafts, mut tokens) = (Vec::new(), 0);
        for (sequence, &len) in self.running.iter_mut().zip(&lens) {
            let mut accepted = 0;
            if len > 0 && self.numbers.next() < self.scenario.found {
                let rate = self.scenario.text.rate(sequence.number, sequence.num_tokens);
                accepted = (0..len).take_while(|_| self.numbers.next() < rate).count();
                drafts.push(len);
                sequence.acceptance.record(len, accepted);
                self.controller.record_acceptance(self.scenario.is_head, len, accepted);
            }
            sequence.num_tokens += 1 + accepted;
            tokens += 1 + accepted;
        }
        let num_draft_rows = drafts.iter().sum();
        let seconds = self.scenario.machine.seconds(self.running.len(), &drafts);
        self.outcome.tokens += tokens;
        self.outcome.drafted += num_draft_rows;
        self.outcome.seconds += seconds;
        self.phase.1 = self.phase.1.saturating_sub(tokens);
        let took = seconds * self.disturbance(&drafts);
        self.clock += took;
        self.controller.record_step(&DraftStep {
            num_decoding: self.running.len(),
            num_drafting: drafts.len(),
            num_draft_rows,
            took: Duration::from_secs_f64(took),
        });
    }

    fn disturbance(&mut self, drafts: &[usize]) -> f64 {
        let (noise, factor) = match self.scenario.disturbance {
            Disturbance::Noise(noise) => (noise, 1.0),
            Disturbance::Spikes(period) => {
                (0.05, if self.num_steps.is_multiple_of(period) { 3.0 } else { 1.0 })
            }
            Disturbance::Pauses(period) => {
                (0.05, if self.numbers.next() * (period as f64) < 1.0 { 30.0 } else { 1.0 })
            }
            Disturbance::SlowStarts => {
                (0.05, if self.seen.insert((self.running.len(), drafts.to_vec())) { 5.0 } else { 1.0 })
            }
            Disturbance::HalfSpeed(seconds) => (0.05, 1.0 + f64::from((self.clock / seconds) as u32 % 2)),
        };
        factor * (noise * self.numbers.normal()).exp()
    }
}
