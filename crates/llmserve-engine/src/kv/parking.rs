//! Cached prefixes in host memory, for cells that lost their slot.

use std::collections::VecDeque;

use crate::ids::TokenId;

use super::{Owners, SessionKey};

/// A cached prefix whose state was saved out of its slot.
#[derive(Debug)]
pub(crate) struct ParkedPrefix {
    pub(crate) tokens: Vec<TokenId>,
    /// How many of the tokens were computed as a prompt; the others were generated.
    pub(crate) num_prompt: usize,
    pub(crate) state: Vec<u8>,
    /// Whether a part of it is usable, or only the whole (recurrent states).
    pub(crate) can_trim: bool,
    /// Whether a sequence that continues from it can draft with the model's own head, as far as is known.
    pub(crate) can_draft: bool,
    pub(crate) owners: Owners,
    /// Whether it came from a file and has not been used yet. Its session has cells here only, so that other prefixes
    /// go first.
    pub(crate) is_awaited: bool,
}

impl ParkedPrefix {
    /// Whether it offers everything that a prefix of these tokens and owners would.
    fn covers(&self, tokens: &[TokenId], can_draft: bool) -> bool {
        self.owners.is_everybody()
            && (self.can_draft || !can_draft)
            && self.tokens.starts_with(tokens)
            && (self.can_trim || self.tokens.len() == tokens.len())
    }
}

/// Host memory for states, bounded in bytes: cached prefixes (least recently used out, those that are
/// awaited last) and, with precedence, preempted sequences, which are only counted here.
#[derive(Debug)]
pub(crate) struct Parking {
    limit: usize,
    /// Least recently used first.
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

    /// Maximum size of one state in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.limit.saturating_sub(self.sequence_bytes)
    }

    /// Keeps a prefix; the oldest ones are dropped, and those that it makes superfluous. A prefix that does not fit
    /// at all is dropped itself.
    pub(crate) fn park_prefix(&mut self, prefix: ParkedPrefix) {
        if prefix.state.is_empty() || prefix.state.len() > self.capacity() {
            return;
        }
        if prefix.owners.is_everybody() {
            self.retain(|old| !(old.owners.is_everybody() && prefix.covers(&old.tokens, old.can_draft)));
        }
        self.prefix_bytes += prefix.state.len();
        self.prefixes.push_back(prefix);
        self.shrink();
    }

    /// Keeps cells from a file: once, however often it is loaded.
    pub(crate) fn park_loaded(&mut self, prefix: ParkedPrefix) {
        let is_same = |old: &&mut ParkedPrefix| {
            !old.owners.is_everybody() && old.tokens == prefix.tokens && old.state == prefix.state
        };
        if let Some(old) = self.prefixes.iter_mut().find(is_same) {
            old.owners.add(prefix.owners);
            old.is_awaited = true;
        } else {
            self.park_prefix(prefix);
        }
    }

    /// Makes room for a preempted sequence's state; false if it exceeds the limit.
    pub(crate) fn reserve_sequence(&mut self, bytes: usize) -> bool {
        if bytes > self.capacity() {
            return false;
        }
        self.sequence_bytes += bytes;
        self.shrink();
        true
    }

    pub(crate) fn release_sequence(&mut self, bytes: usize) {
        self.sequence_bytes = self.sequence_bytes.saturating_sub(bytes);
    }

    /// The parked prefixes, by index.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (usize, &ParkedPrefix)> {
        self.prefixes.iter().enumerate()
    }

    /// Whether a shared prefix need not be parked, since what is here offers everything that it would.
    pub(crate) fn covers(&self, tokens: &[TokenId], can_draft: bool) -> bool {
        self.prefixes.iter().any(|prefix| prefix.covers(tokens, can_draft))
    }

    /// The parked prefix with most of the first tokens of `tokens`, and with no others, that a session may use.
    pub(crate) fn longest_start(
        &self,
        tokens: &[TokenId],
        session: Option<&SessionKey>,
    ) -> Option<&ParkedPrefix> {
        let own = self.prefixes.iter().filter(|prefix| prefix.owners.include(session));
        let starts = own.filter(|prefix| tokens.starts_with(&prefix.tokens));
        starts.max_by_key(|prefix| prefix.tokens.len())
    }

    /// Removes a parked prefix, to be restored.
    pub(crate) fn take(&mut self, index: usize) -> Option<ParkedPrefix> {
        let prefix = self.prefixes.remove(index)?;
        self.prefix_bytes -= prefix.state.len();
        Some(prefix)
    }

    /// Compares the count of bytes with what is here while no sequence waits to go on.
    pub(crate) fn check(&self) -> Result<(), String> {
        let prefix_bytes: usize = self.prefixes.iter().map(|prefix| prefix.state.len()).sum();
        if (prefix_bytes, 0) != (self.prefix_bytes, self.sequence_bytes) || self.num_bytes() > self.limit {
            let counted = (self.prefix_bytes, self.sequence_bytes, self.limit);
            return Err(format!("{prefix_bytes} bytes are parked, counted {counted:?}"));
        }
        Ok(())
    }

    fn retain(&mut self, is_kept: impl Fn(&ParkedPrefix) -> bool) {
        self.prefixes.retain(is_kept);
        self.prefix_bytes = self.prefixes.iter().map(|prefix| prefix.state.len()).sum();
    }

    fn shrink(&mut self) {
        self.retain(|prefix| !prefix.owners.are_gone());
        while self.num_bytes() > self.limit {
            let unawaited = self.prefixes.iter().position(|prefix| !prefix.is_awaited);
            if self.take(unawaited.unwrap_or(0)).is_none() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[i32]) -> Vec<TokenId> {
        ids.iter().copied().map(TokenId).collect()
    }

    fn prefix(ids: &[i32], bytes: usize, can_trim: bool) -> ParkedPrefix {
        ParkedPrefix {
            num_prompt: ids.len(),
            tokens: tokens(ids),
            state: vec![0; bytes],
            can_trim,
            can_draft: true,
            owners: Owners::default(),
            is_awaited: false,
        }
    }

    fn first_tokens(parking: &Parking) -> Vec<i32> {
        parking.prefixes().map(|(_, prefix)| prefix.tokens[0].0).collect()
    }

    #[test]
    fn the_oldest_prefixes_make_room() {
        let mut parking = Parking::new(100);
        parking.park_prefix(prefix(&[1, 2], 60, true));
        parking.park_prefix(prefix(&[3, 4], 30, true));
        parking.park_prefix(prefix(&[5, 6], 30, true));
        assert_eq!(parking.num_bytes(), 60);
        assert_eq!(first_tokens(&parking), [3, 5]);
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
        let session = SessionKey::new(());
        let owners = Owners::one(&session);
        parking.park_loaded(ParkedPrefix { owners, is_awaited: true, ..prefix(&[1, 2], 60, true) });
        parking.park_prefix(prefix(&[3, 4], 30, true));
        parking.park_prefix(prefix(&[5, 6], 30, true));
        assert_eq!(first_tokens(&parking), [1, 5]);
        drop(session);
        parking.park_prefix(prefix(&[7, 8], 30, true));
        assert_eq!(first_tokens(&parking), [5, 7]);
        assert!(parking.reserve_sequence(100), "preempted sequences have precedence");
        assert_eq!(parking.num_bytes(), 100);
    }

    #[test]
    fn one_file_is_kept_once_and_for_those_that_loaded_it() {
        let mut parking = Parking::new(1000);
        let sessions = [SessionKey::new(()), SessionKey::new(())];
        let load = |parking: &mut Parking, session| {
            let owners = Owners::one(session);
            parking.park_loaded(ParkedPrefix { owners, is_awaited: true, ..prefix(&[1, 2], 60, true) });
        };
        for session in sessions.iter().cycle().take(10) {
            load(&mut parking, session);
        }
        assert_eq!(parking.num_bytes(), 60);
        for session in &sessions {
            assert!(parking.longest_start(&tokens(&[1, 2, 3]), Some(session)).is_some());
        }
        assert!(parking.longest_start(&tokens(&[1, 2, 3]), None).is_none());
        // Shared cells are not the file's, and stay beside them.
        parking.park_prefix(prefix(&[1, 2], 60, true));
        assert_eq!(parking.num_bytes(), 120);
    }

    #[test]
    fn a_longer_prefix_takes_the_place_of_its_beginning() {
        let mut parking = Parking::new(1000);
        parking.park_prefix(prefix(&[1, 2], 20, true));
        parking.park_prefix(prefix(&[1, 2, 3], 30, true));
        assert_eq!(parking.num_bytes(), 30);
        assert!(parking.covers(&tokens(&[1, 2]), true) && !parking.covers(&tokens(&[1, 3]), true));
        // A prefix that can only be used whole does not.
        parking.park_prefix(prefix(&[1, 2, 3, 4], 40, false));
        assert_eq!(parking.num_bytes(), 70);
        assert!(!parking.covers(&tokens(&[2]), true));
        // Nor does one that could not draft.
        parking.park_prefix(ParkedPrefix { can_draft: false, ..prefix(&[1, 2, 3, 4, 5], 50, true) });
        assert_eq!(parking.num_bytes(), 120);
        assert!(!parking.covers(&tokens(&[1, 2, 3, 4, 5]), true));
    }
}
