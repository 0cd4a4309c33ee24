//! What drafts of one kind, by heads or by prompt lookup, have come to in an engine.

use super::acceptance::AcceptanceHistory;
use super::candidate::DraftCandidate;

/// Weight of the newest step in the share of asked sequences that had a draft.
const FOUND_WEIGHT: f64 = 0.05;
/// What a draft leaves of the older ones in the comparison of what was expected and accepted.
const FADING: f64 = 0.99;
/// Tokens of that comparison at the start, as if they had been expected and accepted.
const FIRST_TOKENS: f64 = 10.0;
/// Limits of the correction.
const MIN_CORRECTION: f64 = 0.5;
const MAX_CORRECTION: f64 = 1.1;

#[derive(Debug)]
pub(super) struct Method {
    pub(super) history: AcceptanceHistory,
    /// Share of the asked sequences that had a draft.
    pub(super) found: f64,
    /// Tokens that were expected to be accepted, and those that were, fading.
    expected: f64,
    accepted: f64,
    /// What is expected of each draft of the step at hand (mean).
    expected_each: f64,
}

impl Method {
    pub(super) fn new() -> Self {
        Self {
            history: AcceptanceHistory::new(),
            found: 1.0,
            expected: FIRST_TOKENS,
            accepted: FIRST_TOKENS,
            expected_each: 0.0,
        }
    }

    /// What expectations are to be multiplied by. They are too high on the whole: the sequences that draft are
    /// chosen by them, and those that draft much shape what new ones start from.
    pub(super) fn correction(&self) -> f64 {
        (self.accepted / self.expected).clamp(MIN_CORRECTION, MAX_CORRECTION)
    }

    /// Keeps what is expected of these sequences and draft lengths, all of this method. Returns how many are asked.
    pub(super) fn expect<'a>(
        &mut self,
        asked: impl Iterator<Item = (&'a DraftCandidate<'a>, usize)>,
    ) -> usize {
        let expected: Vec<f64> = asked.map(|(sequence, len)| sequence.acceptance.expected(len)).collect();
        self.expected_each = expected.iter().sum::<f64>() / expected.len().max(1) as f64;
        expected.len()
    }

    /// Tokens that are expected to be accepted of each draft of the step at hand.
    pub(super) fn expected_each(&self) -> f64 {
        self.expected_each * self.correction()
    }

    /// Enters how many of the asked sequences had a draft.
    pub(super) fn record_found(&mut self, asked: usize, found: usize) {
        if asked > 0 {
            let share = found as f64 / asked as f64;
            self.found += FOUND_WEIGHT * (share.min(1.0) - self.found);
        }
    }

    /// Enters a draft.
    pub(super) fn record(&mut self, drafted: usize, accepted: usize) {
        self.history.record(drafted, accepted);
        self.expected = self.expected * FADING + self.expected_each;
        self.accepted = self.accepted * FADING + accepted as f64;
    }
}
