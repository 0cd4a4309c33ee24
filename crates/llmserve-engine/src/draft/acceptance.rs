//! How many tokens of a draft are accepted.

use std::cell::Cell;

use super::MAX_DRAFT_TOKENS;

/// The weight that a new record leaves to the older ones of its sequence: about the last twenty drafts count.
const SEQUENCE_DECAY: f64 = 0.95;
/// The decay of the records of all sequences, from which new ones start.
const HISTORY_DECAY: f64 = 0.99;
/// The rate of the first token while nothing has been drafted.
const UNSEEN_RATE: f64 = 0.6;
/// Drafts that the rate of the position before weighs at each position: a start where little was tried.
const INHERITED_WEIGHT: f64 = 0.5;
/// Number of its own drafts that weigh as much as what a sequence starts from.
const START_WEIGHT: f64 = 3.0;
/// Steps without a draft before a sequence that does not draft tries one again; doubled with each
/// try that fails, up to the second.
const FIRST_PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 128;
/// If the engine's records are worse than this, the first pause is the longest: a try also has the draft context
/// follow everything that was computed meanwhile.
const UNLIKELY_RATE: f64 = 0.1;
/// Pauses are kept in full if a try loses a quarter of a step or more, otherwise in proportion.
const FULL_PAUSE_PER_LOSS: f64 = 4.0;

/// Acceptance by position in the draft, with older records fading.
///
/// Positions are separate, since the guesses of a head get worse with each one that builds on its own guess.
#[derive(Debug, Clone, Default)]
struct Rates {
    /// Drafts whose tokens before this position were accepted.
    tried: [f64; MAX_DRAFT_TOKENS],
    /// Drafts in which the token at this position was accepted too.
    accepted: [f64; MAX_DRAFT_TOKENS],
}

impl Rates {
    fn record(&mut self, drafted: usize, accepted: usize, decay: f64) {
        // The token after the first wrong one was computed on a wrong text and says nothing.
        let num_known = drafted.min(accepted + 1).min(MAX_DRAFT_TOKENS);
        for position in 0..MAX_DRAFT_TOKENS {
            // Positions that are not tried fade as well, or a few drafts would determine them for good.
            self.tried[position] *= decay;
            self.accepted[position] *= decay;
            if position < num_known {
                self.tried[position] += 1.0;
                self.accepted[position] += if position < accepted { 1.0 } else { 0.0 };
            }
        }
    }

    /// The same rates with another weight: a factor for each position, by what was tried there.
    fn scaled(&self, factor: impl Fn(f64) -> f64) -> Self {
        let mut rates = self.clone();
        for (tried, accepted) in rates.tried.iter_mut().zip(&mut rates.accepted) {
            let factor = factor(*tried);
            *tried *= factor;
            *accepted *= factor;
        }
        rates
    }

    fn expected(&self, draft_len: usize) -> f64 {
        let (mut all_accepted, mut expected) = (1.0, 0.0);
        let mut rate = UNSEEN_RATE;
        for (tried, accepted) in self.tried.iter().zip(&self.accepted).take(draft_len) {
            rate = (accepted + rate * INHERITED_WEIGHT) / (tried + INHERITED_WEIGHT);
            all_accepted *= rate;
            expected += all_accepted;
        }
        expected
    }
}

/// The record of the drafts of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance {
    rates: Rates,
    /// Steps without a draft before the try that follows a failed one.
    pause: u32,
    /// Steps without a draft before the next try.
    wait: u32,
    /// Steps since the last draft, counted by the controller, which knows a sequence only by this value.
    num_idle: Cell<u32>,
}

impl Acceptance {
    /// Records a draft of `drafted` tokens, of which the first `accepted` were right. No tokens: no draft, no record.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        self.num_idle.set(0);
        self.rates.record(drafted, accepted, SEQUENCE_DECAY);
        if accepted > 0 {
            self.pause = (self.pause / 2).max(FIRST_PAUSE);
            // The text may have become predictable: the next try shows.
            self.wait = 0;
        } else {
            self.wait = self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The number of accepted tokens to expect of a draft of this length.
    pub(crate) fn expected(&self, draft_len: usize) -> f64 {
        self.rates.expected(draft_len)
    }

    /// Records a step in which the sequence might have drafted. It counts until the next record.
    pub(super) fn count_step(&self) {
        self.num_idle.set(self.num_idle.get().saturating_add(1));
    }

    /// Whether the last draft was partly right, so that the sequence drafts without a pause.
    pub(super) fn is_active(&self) -> bool {
        self.wait == 0
    }

    /// Whether a sequence that does not draft may try along with others.
    pub(super) fn may_try(&self) -> bool {
        self.num_idle.get() >= self.wait.min(FIRST_PAUSE)
    }

    /// Whether it has waited long enough to try again, given the expected loss in steps: the smaller the loss,
    /// the sooner.
    pub(super) fn is_due(&self, loss: f64) -> bool {
        let wait = f64::from(self.wait) * (loss * FULL_PAUSE_PER_LOSS).clamp(0.0, 1.0);
        self.may_try() && f64::from(self.num_idle.get()) >= wait
    }
}

/// The record of the drafts of all sequences of an engine.
#[derive(Debug)]
pub(super) struct AcceptanceHistory {
    rates: Rates,
}

impl AcceptanceHistory {
    pub(super) fn new() -> Self {
        Self { rates: Rates::default() }
    }

    pub(super) fn record(&mut self, drafted: usize, accepted: usize) {
        self.rates.record(drafted, accepted, HISTORY_DECAY);
    }

    /// The rates that a new sequence starts from.
    pub(super) fn start(&self) -> Acceptance {
        let rates = self.rates.scaled(|tried| (START_WEIGHT / tried).min(1.0));
        let pause = if rates.expected(1) < UNLIKELY_RATE { LONGEST_PAUSE } else { FIRST_PAUSE };
        Acceptance { rates, pause, wait: pause, num_idle: Cell::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> Acceptance {
        AcceptanceHistory::new().start()
    }

    #[test]
    fn what_is_expected_follows_the_records_at_each_position() {
        let mut acceptance = new();
        // The first token is always right, the second never.
        for _ in 0..200 {
            acceptance.record(3, 1);
        }
        for len in [1, 2, 3, 8] {
            assert!((acceptance.expected(len) - 1.0).abs() < 0.1, "{}", acceptance.expected(len));
        }
        assert!(acceptance.expected(0).abs() < 1e-9);
    }

    #[test]
    fn a_longer_draft_never_lowers_the_expectation() {
        let mut acceptance = new();
        for accepted in [0, 3, 1, 2, 8, 0, 5] {
            acceptance.record(8, accepted);
            for len in 0..MAX_DRAFT_TOKENS {
                assert!(acceptance.expected(len) <= acceptance.expected(len + 1));
            }
            assert!(acceptance.expected(8) <= 8.0);
        }
    }

    #[test]
    fn positions_that_were_never_tried_are_taken_to_be_like_the_one_before() {
        let mut acceptance = new();
        for _ in 0..300 {
            acceptance.record(1, 1);
        }
        assert!(acceptance.expected(3) > 2.7, "{}", acceptance.expected(3));
    }

    #[test]
    fn old_records_fade() {
        let mut acceptance = new();
        for _ in 0..100 {
            acceptance.record(1, 1);
        }
        for _ in 0..30 {
            acceptance.record(1, 0);
        }
        assert!(acceptance.expected(1) < 0.25, "{}", acceptance.expected(1));
    }

    #[test]
    fn no_draft_is_no_record_and_counts_beyond_the_draft_are_cut() {
        let mut acceptance = new();
        let before = acceptance.expected(3);
        acceptance.record(0, 0);
        assert!((acceptance.expected(3) - before).abs() < 1e-9);
        acceptance.record(20, 20);
        acceptance.record(1, 5);
        assert!(acceptance.expected(8) <= 8.0);
    }

    #[test]
    fn a_new_sequence_starts_from_the_history_and_soon_goes_its_own_way() {
        let mut history = AcceptanceHistory::new();
        for _ in 0..300 {
            history.record(3, 3);
        }
        let mut acceptance = history.start();
        assert!(acceptance.expected(3) > 2.7);
        for _ in 0..10 {
            acceptance.record(3, 0);
        }
        assert!(acceptance.expected(1) < 0.25, "{}", acceptance.expected(1));
    }

    /// Steps without a draft before the next try is due.
    fn wait(acceptance: &Acceptance) -> u32 {
        (0..1000)
            .find(|_| {
                acceptance.is_due(1.0) || {
                    acceptance.count_step();
                    false
                }
            })
            .unwrap()
    }

    #[test]
    fn each_failed_try_doubles_the_pause_and_a_right_guess_ends_it() {
        let mut acceptance = new();
        let mut waits = Vec::new();
        for _ in 0..7 {
            waits.push(wait(&acceptance));
            acceptance.record(1, 0);
        }
        assert_eq!(waits, [8, 8, 16, 32, 64, 128, 128]);
        acceptance.record(1, 1);
        assert_eq!(wait(&acceptance), 0);
    }

    #[test]
    fn where_nothing_was_ever_right_the_first_try_waits_longer() {
        let mut history = AcceptanceHistory::new();
        for _ in 0..300 {
            history.record(1, 0);
        }
        assert_eq!(wait(&history.start()), LONGEST_PAUSE);
    }

    #[test]
    fn a_try_that_loses_little_is_due_sooner() {
        let mut acceptance = new();
        for _ in 0..5 {
            acceptance.record(1, 0);
        }
        let steps = |acceptance: &Acceptance, loss| {
            let acceptance = acceptance.clone();
            (0..1000).find(|_| {
                acceptance.is_due(loss) || {
                    acceptance.count_step();
                    false
                }
            })
        };
        assert_eq!(steps(&acceptance, 1.0), Some(128));
        assert_eq!(steps(&acceptance, 0.125), Some(64));
        assert_eq!(steps(&acceptance, 0.0), Some(8));
    }
}
