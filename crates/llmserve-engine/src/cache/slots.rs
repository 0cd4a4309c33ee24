//! Which slot holds what.

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
        Self {
            uses: std::iter::repeat_with(|| SlotUse::Empty).take(num_slots).collect(),
            clock: 0,
        }
    }

    pub(crate) fn empty(&self) -> Option<SlotId> {
        self.find(|slot_use| matches!(slot_use, SlotUse::Empty))
    }

    pub(crate) fn idle(&self) -> impl Iterator<Item = (SlotId, &CachedPrefix)> {
        self.uses.iter().enumerate().filter_map(|(index, slot_use)| match slot_use {
            SlotUse::Idle(prefix) => Some((SlotId(index as u32), prefix)),
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
        self.uses[slot.index()] = SlotUse::Idle(CachedPrefix {
            tokens,
            last_used: self.clock,
        });
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

    fn find(&self, wanted: impl Fn(&SlotUse) -> bool) -> Option<SlotId> {
        self.uses.iter().position(wanted).map(|index| SlotId(index as u32))
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
        assert_eq!(slots.empty(), Some(SlotId(2)));
        assert_eq!(slots.num_idle_cells(), 6);
        assert_eq!(slots.take_idle(SlotId(1)).map(|prefix| prefix.tokens.len()), Some(5));
        assert_eq!(slots.take_idle(SlotId(1)), None);
        slots.set_busy(SlotId(2), RequestId(7));
        assert_eq!(slots.take_idle(SlotId(2)), None);
        assert_eq!(slots.empty(), Some(SlotId(1)));
    }
}
