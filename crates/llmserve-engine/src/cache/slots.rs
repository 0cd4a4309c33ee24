//! Which slot holds what.

use std::cmp::Reverse;

use crate::ids::{RequestId, SlotId, TokenId};

/// The tokens whose cells an idle slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachedPrefix {
    pub(crate) tokens: Vec<TokenId>,
    /// When it was last of use, by the slots' own clock.
    pub(crate) last_used: u64,
}

/// What a slot is used for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    Empty,
    /// The cells of a finished sequence.
    Idle(CachedPrefix),
    /// A running sequence.
    Busy(RequestId),
}

/// The table of slots. Changes nothing in the context: its owner keeps both in step.
#[derive(Debug)]
pub(crate) struct Slots {
    uses: Vec<SlotUse>,
    clock: u64,
}

impl Slots {
    pub(crate) fn new(num_slots: usize) -> Self {
        Self { uses: std::iter::repeat_with(|| SlotUse::Empty).take(num_slots).collect(), clock: 0 }
    }

    pub(crate) fn has_free(&self) -> bool {
        self.uses.iter().any(SlotUse::is_free)
    }

    pub(crate) fn has_empty(&self) -> bool {
        self.uses.contains(&SlotUse::Empty)
    }

    /// The best slot for a new sequence: `preferred` or an empty one before any whose cells would be lost;
    /// among those, where rows of adjacent slots are computed together, one with running neighbours; then
    /// `preferred`; then the least recently used.
    pub(crate) fn choose(&self, wants_adjacent: bool, preferred: Option<SlotId>) -> Option<SlotId> {
        let free = (0..self.uses.len()).filter(|&index| self.uses[index].is_free());
        let rank = |&index: &usize| {
            let neighbours = if wants_adjacent { self.num_busy_neighbours(index) } else { 0 };
            let is_preferred = preferred.is_some_and(|slot| slot.index() == index);
            let is_lost = !is_preferred && self.uses[index] != SlotUse::Empty;
            (is_lost, Reverse(neighbours), !is_preferred, self.uses[index].last_used())
        };
        free.min_by_key(rank).map(slot_id)
    }

    /// How many tokens' cells an idle slot holds; 0 for any other.
    pub(crate) fn num_idle_tokens(&self, slot: SlotId) -> usize {
        match &self.uses[slot.index()] {
            SlotUse::Idle(prefix) => prefix.tokens.len(),
            SlotUse::Empty | SlotUse::Busy(_) => 0,
        }
    }

    fn num_busy_neighbours(&self, index: usize) -> usize {
        let is_busy =
            |index: usize| self.uses.get(index).is_some_and(|slot_use| matches!(slot_use, SlotUse::Busy(_)));
        usize::from(index.checked_sub(1).is_some_and(is_busy)) + usize::from(is_busy(index + 1))
    }

    /// A move that brings the running sequences nearer together, where they are apart: from the end
    /// of the shortest run of busy slots to beside the longest.
    pub(crate) fn closing_move(&self) -> Option<(SlotId, SlotId)> {
        let busy: Vec<usize> = (0..self.uses.len()).filter(|&index| !self.uses[index].is_free()).collect();
        let runs: Vec<&[usize]> = busy.chunk_by(|a, b| a + 1 == *b).collect();
        if runs.len() < 2 {
            return None;
        }
        let longest = (0..runs.len()).max_by_key(|&run| (runs[run].len(), Reverse(run)))?;
        let shortest = (0..runs.len()).filter(|&run| run != longest).min_by_key(|&run| runs[run].len())?;
        let from = *runs[shortest].last()?;
        let after = runs[longest].last()? + 1;
        let before = runs[longest].first()?.checked_sub(1);
        let beside = before.into_iter().chain((after < self.uses.len()).then_some(after));
        let to = beside.min_by_key(|&index| self.uses[index].last_used())?;
        Some((slot_id(from), slot_id(to)))
    }

    pub(crate) fn idle(&self) -> impl Iterator<Item = (SlotId, &CachedPrefix)> {
        self.uses.iter().enumerate().filter_map(|(index, slot_use)| match slot_use {
            SlotUse::Idle(prefix) => Some((slot_id(index), prefix)),
            SlotUse::Empty | SlotUse::Busy(_) => None,
        })
    }

    pub(crate) fn least_recently_used(&self) -> Option<(SlotId, &CachedPrefix)> {
        self.idle().min_by_key(|(_, prefix)| prefix.last_used)
    }

    pub(crate) fn num_idle_cells(&self) -> usize {
        self.idle().map(|(_, prefix)| prefix.tokens.len()).sum()
    }

    /// Keeps the cells of a sequence that is over.
    pub(crate) fn keep(&mut self, slot: SlotId, tokens: Vec<TokenId>) {
        self.clock += 1;
        self.uses[slot.index()] = SlotUse::Idle(CachedPrefix { tokens, last_used: self.clock });
    }

    /// An idle slot was of use.
    pub(crate) fn touch(&mut self, slot: SlotId) {
        self.clock += 1;
        if let SlotUse::Idle(prefix) = &mut self.uses[slot.index()] {
            prefix.last_used = self.clock;
        }
    }

    pub(crate) fn set_empty(&mut self, slot: SlotId) {
        self.uses[slot.index()] = SlotUse::Empty;
    }

    pub(crate) fn set_busy(&mut self, slot: SlotId, request: RequestId) {
        self.uses[slot.index()] = SlotUse::Busy(request);
    }

    /// Takes an idle slot's tokens and leaves it empty.
    pub(crate) fn take_idle(&mut self, slot: SlotId) -> Option<CachedPrefix> {
        match std::mem::replace(&mut self.uses[slot.index()], SlotUse::Empty) {
            SlotUse::Idle(prefix) => Some(prefix),
            other @ (SlotUse::Empty | SlotUse::Busy(_)) => {
                self.uses[slot.index()] = other;
                None
            }
        }
    }
}

fn slot_id(index: usize) -> SlotId {
    SlotId(index as u32)
}

impl SlotUse {
    fn is_free(&self) -> bool {
        !matches!(self, Self::Busy(_))
    }

    /// 0 for an empty slot, so that it comes before every idle one.
    fn last_used(&self) -> u64 {
        match self {
            Self::Idle(prefix) => prefix.last_used,
            Self::Empty | Self::Busy(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut slots = Slots::new(3);
        slots.keep(SlotId(0), vec![TokenId(1)]);
        slots.keep(SlotId(1), vec![TokenId(2); 5]);
        slots.touch(SlotId(0));
        assert_eq!(slots.least_recently_used().map(|(slot, _)| slot), Some(SlotId(1)));
        assert_eq!(slots.choose(false, None), Some(SlotId(2)));
        assert_eq!(slots.choose(false, Some(SlotId(0))), Some(SlotId(0)));
        assert_eq!(slots.num_idle_cells(), 6);
        assert_eq!(slots.take_idle(SlotId(1)).map(|prefix| prefix.tokens.len()), Some(5));
        assert_eq!(slots.take_idle(SlotId(1)), None);
        slots.set_busy(SlotId(2), RequestId(7));
        assert_eq!(slots.take_idle(SlotId(2)), None);
        assert_eq!(slots.choose(false, None), Some(SlotId(1)));
    }

    fn busy(num_slots: usize, at: &[u32]) -> Slots {
        let mut slots = Slots::new(num_slots);
        for &slot in at {
            slots.set_busy(SlotId(slot), RequestId(0));
        }
        slots
    }

    #[test]
    fn a_new_sequence_goes_beside_running_ones() {
        let slots = busy(8, &[2, 3, 5]);
        assert_eq!(slots.choose(true, Some(SlotId(7))), Some(SlotId(4)));
        assert_eq!(busy(8, &[2]).choose(true, Some(SlotId(3))), Some(SlotId(3)));
        assert_eq!(busy(8, &[2]).choose(true, Some(SlotId(7))), Some(SlotId(1)));
        assert_eq!(busy(8, &[]).choose(true, Some(SlotId(7))), Some(SlotId(7)));
        assert_eq!(busy(2, &[0, 1]).choose(true, None), None);
    }

    #[test]
    fn gaps_between_running_sequences_close() {
        for at in [vec![0, 2, 4, 6], vec![0, 1, 6, 7], vec![3, 4, 5], vec![1, 7], vec![0, 3, 4, 7]] {
            let mut slots = busy(8, &at);
            let mut num_moves = 0;
            while let Some((from, to)) = slots.closing_move() {
                slots.set_empty(from);
                slots.set_busy(to, RequestId(0));
                num_moves += 1;
                assert!(num_moves <= at.len(), "{at:?} does not settle");
            }
            let left: Vec<usize> = (0..8).filter(|&index| !slots.uses[index].is_free()).collect();
            assert_eq!(left.len(), at.len());
            assert_eq!(left[left.len() - 1] - left[0] + 1, left.len(), "{left:?}");
        }
    }
}
