//! How many tokens of a draft are accepted.

use std::cell::Cell;

use super::MAX_DRAFT_TOKENS;

/// The weight that a new record leaves to the older ones: about the last twenty drafts count.
const DECAY: f64 = 0.95;
/// What each step without a draft leaves of a sequence's records when it is decided whether to try again.
const IDLE_DECAY: f64 = 0.99;
/// The rate of the first token while nothing has been drafted.
const UNSEEN_RATE: f64 = 0.6;
/// Drafts that the rate of the position before weighs at each position: a start where little was tried.
const INHERITED_WEIGHT: f64 = 0.5;
/// Number of its own drafts that weigh as much as what a sequence starts from.
const START_WEIGHT: f64 = 3.0;
/// Weight of the newest step in the share of asked sequences that had a draft.
const FOUND_WEIGHT: f64 = 0.05;

/// Accepted tokens to expect, by the length of the draft.
pub(super) type Expected = [f64; MAX_DRAFT_TOKENS + 1];

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
    /// Positions that are not tried fade as well, or a few drafts would determine them for good.
    fn record(&mut self, drafted: usize, accepted: usize, decay: f64) {
        for value in self.tried.iter_mut().chain(&mut self.accepted) {
            *value *= decay;
        }
        // The token after the first wrong one was computed on a wrong text and says nothing.
        for position in 0..drafted.min(accepted + 1).min(MAX_DRAFT_TOKENS) {
            self.tried[position] += 1.0;
            self.accepted[position] += if position < accepted { 1.0 } else { 0.0 };
        }
    }

    /// `weight`: what the records weigh now.
    fn expected(&self, weight: f64) -> Expected {
        let mut expected = [0.0; MAX_DRAFT_TOKENS + 1];
        let (mut rate, mut all_accepted) = (UNSEEN_RATE, 1.0);
        for (position, (tried, accepted)) in self.tried.iter().zip(&self.accepted).enumerate() {
            rate = (accepted * weight + rate * INHERITED_WEIGHT) / (tried * weight + INHERITED_WEIGHT);
            all_accepted *= rate;
            expected[position + 1] = expected[position] + all_accepted;
        }
        expected
    }
}

/// The record of the drafts of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance {
    rates: Rates,
    /// Steps since the last draft, counted by the controller, which knows a sequence only by this value.
    num_idle: Cell<u32>,
}

impl Acceptance {
    /// Records a draft of `drafted` tokens, of which the first `accepted` were right. No tokens: no draft, no record.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted > 0 {
            let idle = self.idle_weight();
            self.num_idle.set(0);
            self.rates.record(drafted, accepted, DECAY * idle);
        }
    }

    /// The accepted tokens to expect by the records.
    pub(super) fn expected(&self) -> Expected {
        self.rates.expected(1.0)
    }

    /// The accepted tokens to hope for: the longer ago the last draft, the less its record counts.
    pub(super) fn hoped(&self) -> Expected {
        self.rates.expected(self.idle_weight())
    }

    /// Counts a step in which the sequence might have drafted.
    pub(super) fn count_idle(&self) {
        self.num_idle.set(self.num_idle.get().saturating_add(1));
    }

    fn idle_weight(&self) -> f64 {
        IDLE_DECAY.powf(f64::from(self.num_idle.get()))
    }
}

/// How drafts by the head, or by prompt lookup, have fared in an engine.
#[derive(Debug)]
pub(super) struct History {
    rates: Rates,
    /// Share of the asked sequences that had a draft.
    found: f64,
}

impl History {
    pub(super) fn new() -> Self {
        Self { rates: Rates::default(), found: 1.0 }
    }

    pub(super) fn record(&mut self, drafted: usize, accepted: usize) {
        self.rates.record(drafted, accepted, DECAY);
    }

    /// Records how many of the asked sequences had a draft.
    pub(super) fn record_found(&mut self, asked: usize, found: usize) {
        if asked > 0 {
            let share = found as f64 / asked as f64;
            self.found += FOUND_WEIGHT * (share.min(1.0) - self.found);
        }
    }

    pub(super) fn found(&self) -> f64 {
        self.found
    }

    /// What a new sequence starts from.
    pub(super) fn start(&self) -> Acceptance {
        let mut rates = self.rates.clone();
        for (tried, accepted) in rates.tried.iter_mut().zip(&mut rates.accepted) {
            let weight = START_WEIGHT / tried.max(START_WEIGHT);
            *tried *= weight;
            *accepted *= weight;
        }
        Acceptance { rates, num_idle: Cell::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> Acceptance {
        History::new().start()
    }

    #[test]
    fn what_is_expected_follows_the_records_at_each_position() {
        let mut acceptance = new();
        // The first token is always right, the second never.
        for _ in 0..200 {
            acceptance.record(3, 1);
        }
        for len in [1, 2, 3, 8] {
            assert!((acceptance.expected()[len] - 1.0).abs() < 0.1, "{}", acceptance.expected()[len]);
        }
        assert!(acceptance.expected()[0].abs() < 1e-9);
    }

    #[test]
    fn a_longer_draft_never_lowers_the_expectation() {
        let mut acceptance = new();
        for accepted in [0, 3, 1, 2, 8, 0, 5] {
            acceptance.record(8, accepted);
            for len in 0..MAX_DRAFT_TOKENS {
                assert!(acceptance.expected()[len] <= acceptance.expected()[len + 1]);
            }
            assert!(acceptance.expected()[8] <= 8.0);
        }
    }

    #[test]
    fn positions_that_were_never_tried_are_taken_to_be_like_the_one_before() {
        let mut acceptance = new();
        for _ in 0..300 {
            acceptance.record(1, 1);
        }
        assert!(acceptance.expected()[3] > 2.7, "{}", acceptance.expected()[3]);
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
        assert!(acceptance.expected()[1] < 0.25, "{}", acceptance.expected()[1]);
    }

    #[test]
    fn no_draft_is_no_record_and_counts_beyond_the_draft_are_cut() {
        let mut acceptance = new();
        let before = acceptance.expected()[3];
        acceptance.record(0, 0);
        assert!((acceptance.expected()[3] - before).abs() < 1e-9);
        acceptance.record(20, 20);
        acceptance.record(1, 5);
        assert!(acceptance.expected()[8] <= 8.0);
    }

    #[test]
    fn a_new_sequence_starts_from_the_history_and_soon_goes_its_own_way() {
        let mut history = History::new();
        for _ in 0..300 {
            history.record(3, 3);
        }
        let mut acceptance = history.start();
        assert!(acceptance.expected()[3] > 2.7);
        for _ in 0..10 {
            acceptance.record(3, 0);
        }
        assert!(acceptance.expected()[1] < 0.25, "{}", acceptance.expected()[1]);
    }

    #[test]
    fn the_hope_returns_while_nothing_is_drafted() {
        let mut acceptance = new();
        for _ in 0..50 {
            acceptance.record(3, 0);
        }
        let hopes: Vec<f64> = (0..1000)
            .map(|_| {
                acceptance.count_idle();
                acceptance.hoped()[1]
            })
            .collect();
        assert!(hopes.is_sorted() && hopes[0] < 0.05 && hopes[999] > 0.55, "{hopes:?}");
        assert!(acceptance.expected()[1] < 0.05);
    }
}
