//! Cached prefixes in host memory, for cells that lost their slot.

use std::collections::VecDeque;
use std::sync::Weak;

use crate::ids::TokenId;

use super::common_prefix;

/// A cached prefix whose state was saved out of its slot.
#[derive(Debug)]
pub(crate) struct ParkedPrefix {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) state: Vec<u8>,
    /// Whether a part of it is of use, or only the whole (recurrent states).
    pub(crate) can_trim: bool,
    /// Whether a sequence that goes on from it can draft with the model's own head, as far as is known.
    pub(crate) can_draft: bool,
    /// While somebody holds it, other prefixes go first: a session out of a file has its cells here only.
    pub(crate) awaited: Weak<()>,
}

impl ParkedPrefix {
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.strong_count() > 0
    }
}

/// Host memory for states, bounded in bytes: cached prefixes (least recently used out, those that are
/// awaited last) and, with precedence, preempted sequences, which are only counted here.
#[derive(Debug)]
pub(crate) struct Parking {
    limit: usize,
    /// Oldest first.
    prefixes: VecDeque<ParkedPrefix>,
    prefix_bytes: usize,
    sequence_bytes: usize,
}

impl Parking {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit: limit_bytes, prefixes: VecDeque::new(), prefix_bytes: 0, sequence_bytes: 0 }
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.prefix_bytes + self.sequence_bytes
    }

    /// Whether a state of this size would find room, so that nobody saves one for nothing.
    pub(crate) fn can_hold(&self, bytes: usize) -> bool {
        bytes > 0 && self.sequence_bytes + bytes <= self.limit
    }

    /// Keeps a prefix; the oldest ones go. One that does not fit at all is dropped.
    pub(crate) fn park_prefix(&mut self, prefix: ParkedPrefix) {
        if !self.can_hold(prefix.state.len()) {
            return;
        }
        self.prefix_bytes += prefix.state.len();
        self.prefixes.push_back(prefix);
        self.shrink();
    }

    /// Makes room for a preempted sequence's state; false if it exceeds the limit.
    pub(crate) fn reserve_sequence(&mut self, bytes: usize) -> bool {
        if self.sequence_bytes + bytes > self.limit {
            return false;
        }
        self.sequence_bytes += bytes;
        self.shrink();
        true
    }

    pub(crate) fn release_sequence(&mut self, bytes: usize) {
        self.sequence_bytes = self.sequence_bytes.saturating_sub(bytes);
    }

    /// The parked prefix that shares most with `tokens`, and how much of it is of use. `is_wanted` is asked with
    /// that length.
    pub(crate) fn best_match(
        &self,
        tokens: &[TokenId],
        is_wanted: impl Fn(&ParkedPrefix, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let usable = |prefix: &ParkedPrefix| {
            let shared = common_prefix(&prefix.tokens, tokens);
            let is_usable = prefix.can_trim || shared == prefix.tokens.len();
            if is_usable && is_wanted(prefix, shared) { shared } else { 0 }
        };
        let matches = self.prefixes.iter().enumerate().map(|(index, prefix)| (index, usable(prefix)));
        matches.filter(|&(_, shared)| shared > 0).max_by_key(|&(_, shared)| shared)
    }

    /// Whether exactly these tokens are parked.
    pub(crate) fn has(&self, tokens: &[TokenId]) -> bool {
        self.prefixes.iter().any(|prefix| prefix.tokens == tokens)
    }

    /// The parked prefix with most of the first tokens of `tokens`, and with no others.
    pub(crate) fn longest_start(&self, tokens: &[TokenId]) -> Option<&ParkedPrefix> {
        let starts = self.prefixes.iter().filter(|prefix| tokens.starts_with(&prefix.tokens));
        starts.max_by_key(|prefix| prefix.tokens.len())
    }

    /// Takes a parked prefix out, to be restored.
    pub(crate) fn take(&mut self, index: usize) -> Option<ParkedPrefix> {
        let prefix = self.prefixes.remove(index)?;
        self.prefix_bytes -= prefix.state.len();
        Some(prefix)
    }

    fn shrink(&mut self) {
        while self.num_bytes() > self.limit {
            let unawaited = self.prefixes.iter().position(|prefix| !prefix.is_awaited());
            if self.take(unawaited.unwrap_or(0)).is_none() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(ids: &[i32], bytes: usize, can_trim: bool) -> ParkedPrefix {
        let tokens = ids.iter().copied().map(TokenId).collect();
        ParkedPrefix { tokens, state: vec![0; bytes], can_trim, can_draft: true, awaited: Weak::new() }
    }

    fn best_match(parking: &Parking, tokens: &[TokenId]) -> Option<(usize, usize)> {
        parking.best_match(tokens, |_, _| true)
    }

    #[test]
    fn the_oldest_prefixes_make_room() {
        let mut parking = Parking::new(100);
        parking.park_prefix(prefix(&[1, 2], 60, true));
        parking.park_prefix(prefix(&[3, 4], 30, true));
        parking.park_prefix(prefix(&[5, 6], 30, true));
        assert_eq!(parking.num_bytes(), 60);
        assert_eq!(best_match(&parking, &[TokenId(1)]), None);
        assert!(parking.reserve_sequence(90));
        assert_eq!(parking.num_bytes(), 90);
        assert!(!parking.reserve_sequence(20));
        parking.release_sequence(90);
        parking.park_prefix(prefix(&[8], 10, true));
        parking.park_prefix(prefix(&[7], 101, true));
        assert_eq!(parking.num_bytes(), 10, "what cannot fit pushes nobody out");
    }

    #[test]
    fn what_is_awaited_goes_last() {
        let mut parking = Parking::new(100);
        let session = std::sync::Arc::new(());
        let awaited = std::sync::Arc::downgrade(&session);
        parking.park_prefix(ParkedPrefix { awaited, ..prefix(&[1, 2], 60, true) });
        parking.park_prefix(prefix(&[3, 4], 30, true));
        parking.park_prefix(prefix(&[5, 6], 30, true));
        assert_eq!(best_match(&parking, &[TokenId(1)]), Some((0, 1)));
        assert_eq!(best_match(&parking, &[TokenId(3)]), None);
        drop(session);
        parking.park_prefix(prefix(&[7, 8], 30, true));
        assert_eq!(best_match(&parking, &[TokenId(1)]), None);
        assert!(parking.reserve_sequence(100), "preempted sequences have precedence");
        assert_eq!(parking.num_bytes(), 100);
    }

    #[test]
    fn a_state_that_cannot_be_trimmed_is_used_whole_or_not() {
        let mut parking = Parking::new(100);
        parking.park_prefix(prefix(&[1, 2, 3], 1, false));
        parking.park_prefix(prefix(&[1, 2, 9], 1, true));
        let tokens: Vec<TokenId> = [1, 2, 4].map(TokenId).to_vec();
        assert_eq!(best_match(&parking, &tokens), Some((1, 2)));
        let tokens: Vec<TokenId> = [1, 2, 3, 4].map(TokenId).to_vec();
        assert_eq!(best_match(&parking, &tokens), Some((0, 3)));
    }
}
