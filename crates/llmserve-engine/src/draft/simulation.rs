//! Generations on machines of known cost with text of known predictability, without time.

use std::time::Duration;

use super::MAX_DRAFT_TOKENS;
use super::acceptance::Acceptance;
use super::controller::{DraftCandidate, DraftController, DraftStep};

const TOKENS: usize = 400;

/// What a step takes: the number of sequences, those that draft, the length of each draft.
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
    fn seconds(self, num_decoding: usize, num_drafting: usize, rows: usize, len: usize) -> f64 {
        let all = (num_decoding + rows) as f64;
        let step = match self {
            Self::FreeRows => (all / 4.0).max(1.0),
            Self::FullRows => all,
            Self::LinearRows => 1.0 + 0.3 * (all - 1.0),
            Self::Passes => {
                let passes = if rows > 0 && num_drafting < num_decoding { 2.0 } else { 1.0 };
                passes + 0.04 * all
            }
            Self::Blocks => (all / 8.0).ceil(),
            Self::DearHead => 1.0 + 0.05 * all + len as f64 * 0.3,
        };
        step * 0.02
    }
}

/// A generator of equal numbers for equal seeds (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, with mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// How likely a draft's next token is right, by the number of tokens of the sequence so far.
type Predictability = fn(usize) -> f64;

#[derive(Clone)]
struct Text {
    rate: std::rc::Rc<dyn Fn(usize) -> f64>,
    /// How often there is a draft.
    found: f64,
}

impl Text {
    fn steady(rate: f64) -> Self {
        Self { rate: std::rc::Rc::new(move |_| rate), found: 1.0 }
    }
}

struct Running {
    text: Text,
    acceptance: Acceptance,
    num_tokens: usize,
}

#[derive(Debug, Clone, Copy)]
enum Policy {
    Fixed(usize),
    Adaptive,
}

struct World {
    machine: Machine,
    noise: f64,
    numbers: Numbers,
    controller: DraftController,
    is_head: bool,
    max: usize,
    /// How slow the machine is, by step.
    slowness: fn(usize) -> f64,
    num_steps: usize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    tokens: usize,
    seconds: f64,
    drafted: usize,
}

impl Outcome {
    fn rate(self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

impl World {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            noise: 0.1,
            numbers: Numbers(7),
            controller: DraftController::new(),
            is_head: true,
            max: 3,
            slowness: |_| 1.0,
            num_steps: 0,
        }
    }

    /// One generation for each text, all begun together and each followed by others until the
    /// first of them all has so many tokens on average.
    fn generate(&mut self, texts: &[Text], policy: Policy, rounds: usize) -> Outcome {
        let mut running: Vec<Running> = texts.iter().map(|text| self.start(text)).collect();
        let mut outcome = Outcome::default();
        while outcome.tokens < TOKENS * texts.len() * rounds {
            self.step(&mut running, policy, &mut outcome);
            for sequence in &mut running {
                if sequence.num_tokens >= TOKENS {
                    *sequence = Running {
                        num_tokens: 0,
                        acceptance: self.controller.acceptance(self.is_head),
                        text: sequence.text.clone(),
                    };
                }
            }
        }
        outcome
    }

    fn start(&self, text: &Text) -> Running {
        Running { text: text.clone(), acceptance: self.controller.acceptance(self.is_head), num_tokens: 0 }
    }

    fn step(&mut self, running: &mut [Running], policy: Policy, outcome: &mut Outcome) {
        self.num_steps += 1;
        let candidates: Vec<DraftCandidate<'_>> = running
            .iter()
            .map(|sequence| DraftCandidate {
                acceptance: &sequence.acceptance,
                max: self.max.min(TOKENS - 1 - sequence.num_tokens.min(TOKENS - 1)),
                adaptive: true,
                is_head: self.is_head,
            })
            .collect();
        let lens = match policy {
            Policy::Fixed(len) => candidates.iter().map(|candidate| len.min(candidate.max)).collect(),
            Policy::Adaptive => self.controller.choose(&candidates),
        };
        let (mut num_drafting, mut rows, mut longest) = (0, 0, 0);
        for (sequence, &len) in running.iter_mut().zip(&lens) {
            sequence.num_tokens += 1;
            outcome.tokens += 1;
            if len == 0 || self.numbers.next() >= sequence.text.found {
                continue;
            }
            let rate = (sequence.text.rate)(sequence.num_tokens);
            let accepted = (0..len).take_while(|_| self.numbers.next() < rate).count();
            (num_drafting, rows, longest) = (num_drafting + 1, rows + len, longest.max(len));
            sequence.num_tokens += accepted;
            outcome.tokens += accepted;
            outcome.drafted += len;
            sequence.acceptance.record(len, accepted);
            self.controller.record_acceptance(self.is_head, len, accepted);
        }
        let exact = self.machine.seconds(running.len(), num_drafting, rows, longest)
            * (self.slowness)(self.num_steps);
        let took = exact * (self.noise * self.numbers.normal()).exp();
        outcome.seconds += took;
        self.controller.record_step(&DraftStep {
            num_decoding: running.len(),
            num_drafting,
            draft_len: longest,
            num_draft_rows: rows,
            took: Duration::from_secs_f64(took),
        });
    }
}

#[test]
fn table() {
    for machine in MACHINES {
        println!("{machine:?}");
        for count in [1, 2, 4, 8, 16] {
            print!("{count:>4} ");
            for rate in [0.0, 0.3, 0.6, 0.8, 0.95] {
                let texts = vec![Text::steady(rate); count];
                let fixed: Vec<f64> = (0..=3)
                    .map(|len| World::new(machine).generate(&texts, Policy::Fixed(len), 20).rate())
                    .collect();
                let best = fixed.iter().copied().fold(0.0, f64::max);
                let best_len = fixed.iter().position(|&rate| rate == best).unwrap();
                let mut world = World::new(machine);
                let cold = world.generate(&texts, Policy::Adaptive, 1).rate();
                world.generate(&texts, Policy::Adaptive, 4);
                let warm = world.generate(&texts, Policy::Adaptive, 20);
                print!(
                    " | {rate:.2} {best_len} x{:.2}: cold {:.3} warm off {:.3} best {:.3}",
                    best / fixed[0],
                    cold / fixed[0],
                    warm.rate() / fixed[0],
                    warm.rate() / best
                );
            }
            println!();
        }
    }
}

#[test]
fn debug() {
    let texts = vec![Text::steady(0.6); 4];
    let mut world = World::new(Machine::FreeRows);
    let mut running: Vec<Running> = texts.iter().map(|text| world.start(text)).collect();
    let mut outcome = Outcome::default();
    for step in 0..60 {
        let before = outcome;
        world.step(&mut running, Policy::Adaptive, &mut outcome);
        println!(
            "{step} drafted {} took {:.4} {}",
            outcome.drafted - before.drafted,
            outcome.seconds - before.seconds,
            world.controller.describe()
        );
    }
}
