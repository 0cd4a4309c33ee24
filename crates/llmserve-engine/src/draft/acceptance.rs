//! How many tokens of a draft are accepted.

use std::cell::Cell;

use super::MAX_DRAFT_TOKENS;

/// What a new record leaves of the older ones of its sequence: about the last twenty drafts count.
const SEQUENCE_DECAY: f64 = 0.95;
/// The same for the records of all sequences, from which new ones start.
const HISTORY_DECAY: f64 = 0.99;
/// The rate of the first token while nothing has been drafted.
const UNSEEN_RATE: f64 = 0.6;
/// Drafts that the rate of the position before weighs at each position: a start where little was tried.
const INHERITED_WEIGHT: f64 = 0.5;
/// Drafts of its own that weigh as much as what a sequence starts from.
const START_WEIGHT: f64 = 3.0;
/// Steps without a draft before a sequence that does not draft tries one again; doubled with each
/// try that fails, up to the second.
const FIRST_PAUSE: u32 = 8;
const LONGEST_PAUSE: u32 = 128;
/// Pauses are kept in full where a try loses a quarter of a step or more, else in proportion.
const FULL_PAUSE_PER_LOSS: f64 = 4.0;
/// What is left of the older records after a pause: the text may have changed.
const AFTER_PAUSE: f64 = 0.5;

/// Acceptance by position in the draft, with older records fading.
///
/// Positions are apart since the guesses of a head get worse with each one that builds on its own guess.
#[derive(Debug, Clone, Default)]
struct Rates {
    /// Drafts whose tokens before this position were accepted.
    tried: [f64; MAX_DRAFT_TOKENS],
    /// Those in which the token at this position was accepted too.
    accepted: [f64; MAX_DRAFT_TOKENS],
}

impl Rates {
    fn record(&mut self, drafted: usize, accepted: usize, decay: f64) {
        // The token after the first wrong one was computed on a wrong text and says nothing.
        let num_known = drafted.min(accepted + 1).min(MAX_DRAFT_TOKENS);
        for position in 0..num_known {
            let hit = if position < accepted { 1.0 } else { 0.0 };
            self.tried[position] = self.tried[position] * decay + 1.0;
            self.accepted[position] = self.accepted[position] * decay + hit;
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

/// What has become of the drafts of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance {
    rates: Rates,
    /// Steps without a draft before the try that follows a failed one.
    pause: u32,
    /// Steps without a draft before the next try.
    wait: u32,
    /// Steps since the last draft. Counted by the controller, which knows a sequence only by this value of its.
    num_idle: Cell<u32>,
}

impl Acceptance {
    /// Enters a draft of `drafted` tokens, of which the first `accepted` were right. No tokens: no draft, no record.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        if self.num_idle.replace(0) >= FIRST_PAUSE {
            self.rates = self.rates.scaled(|_| AFTER_PAUSE);
        }
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

    /// Enters a step in which the sequence might have drafted. It counts until the next record.
    pub(super) fn count_step(&self) {
        self.num_idle.set(self.num_idle.get().saturating_add(1));
    }

    /// Whether a sequence that does not draft may try along with others.
    pub(super) fn may_try(&self) -> bool {
        self.num_idle.get() >= self.wait.min(FIRST_PAUSE)
    }

    /// Whether it has waited long enough to try again, where that is expected to lose so much, in steps. The
    /// less it loses the sooner.
    pub(super) fn is_due(&self, loss: f64) -> bool {
        let wait = f64::from(self.wait) * (loss * FULL_PAUSE_PER_LOSS).clamp(0.0, 1.0);
        self.may_try() && f64::from(self.num_idle.get()) >= wait
    }
}

/// What has become of the drafts of all sequences of an engine.
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

    /// What a new sequence starts from.
    pub(super) fn start(&self) -> Acceptance {
        let rates = self.rates.scaled(|tried| (START_WEIGHT / tried).min(1.0));
        Acceptance { rates, pause: FIRST_PAUSE, wait: FIRST_PAUSE, num_idle: Cell::new(0) }
    }
}
