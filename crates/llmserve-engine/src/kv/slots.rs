//! The slots and their contents.

use std::cmp::Reverse;

use crate::ids::{SlotId, TokenId};

use super::Owners;

/// The tokens whose cells are in an idle slot.
#[derive(Debug, Clone)]
pub(crate) struct CachedPrefix {
    pub(crate) tokens: Vec<TokenId>,
    /// How many of them were computed as a prompt; the others were generated.
    pub(crate) num_prompt: usize,
    pub(crate) owners: Owners,
    /// When it was last used, by the slots' own clock.
    pub(crate) last_used: u64,
}

/// The use of a slot.
#[derive(Debug)]
pub(crate) enum SlotUse {
    Empty,
    /// The cells of a finished sequence.
    Idle(CachedPrefix),
    /// A running sequence, and the owners of its cells.
    Busy(Owners),
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

    /// The use of each slot.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (SlotId, &SlotUse)> {
        self.uses.iter().enumerate().map(|(index, slot_use)| (slot_id(index), slot_use))
    }

    pub(crate) fn has_busy(&self) -> bool {
        !self.uses.iter().all(SlotUse::is_free)
    }

    /// The owners of a slot's cells.
    pub(crate) fn owners(&self, slot: SlotId) -> Option<&Owners> {
        match &self.uses[slot.index()] {
            SlotUse::Empty => None,
            SlotUse::Idle(prefix) => Some(&prefix.owners),
            SlotUse::Busy(owners) => Some(owners),
        }
    }

    /// How likely it is that an idle prefix is wanted again, by how many others were used since.
    pub(crate) fn chance(&self, prefix: &CachedPrefix) -> f64 {
        let num_older = self.idle().filter(|(_, other)| other.last_used < prefix.last_used).count();
        (num_older + 1) as f64 / (self.idle().count() + 1) as f64
    }

    /// Running sequences in the slots beside a slot.
    pub(crate) fn num_neighbours(&self, slot: SlotId) -> usize {
        let index = slot.index();
        let is_busy =
            |index: usize| self.uses.get(index).is_some_and(|slot_use| matches!(slot_use, SlotUse::Busy(_)));
        usize::from(index.checked_sub(1).is_some_and(is_busy)) + usize::from(is_busy(index + 1))
    }

    /// A move that brings the running sequences nearer together, where they are apart: from the end of the
    /// shortest run of busy slots to beside the longest; of runs of one length, from the one with fewest cells.
    pub(crate) fn closing_move(&self, num_cells: impl Fn(SlotId) -> usize) -> Option<(SlotId, SlotId)> {
        let busy: Vec<usize> = (0..self.uses.len()).filter(|&index| !self.uses[index].is_free()).collect();
        let runs: Vec<&[usize]> = busy.chunk_by(|a, b| a + 1 == *b).collect();
        if runs.len() < 2 {
            return None;
        }
        let size = |run: &usize| {
            let cells: usize = runs[*run].iter().map(|&index| num_cells(slot_id(index))).sum();
            (runs[*run].len(), cells)
        };
        let longest = (0..runs.len()).max_by_key(|run| (size(run), Reverse(*run)))?;
        let shortest = (0..runs.len()).filter(|&run| run != longest).min_by_key(size)?;
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

    /// Keeps the cells of a finished sequence.
    pub(crate) fn keep(&mut self, slot: SlotId, tokens: Vec<TokenId>, num_prompt: usize) {
        self.clock += 1;
        let owners = self.owners(slot).cloned().unwrap_or_default();
        let last_used = self.clock;
        self.uses[slot.index()] = SlotUse::Idle(CachedPrefix { tokens, num_prompt, owners, last_used });
    }

    /// Records that an idle slot was used.
    pub(crate) fn touch(&mut self, slot: SlotId) {
        self.clock += 1;
        if let SlotUse::Idle(prefix) = &mut self.uses[slot.index()] {
            prefix.last_used = self.clock;
        }
    }

    pub(crate) fn set_empty(&mut self, slot: SlotId) {
        self.uses[slot.index()] = SlotUse::Empty;
    }

    pub(crate) fn set_busy(&mut self, slot: SlotId, owners: Owners) {
        self.uses[slot.index()] = SlotUse::Busy(owners);
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
        slots.keep(SlotId(0), vec![TokenId(1)], 1);
        slots.keep(SlotId(1), vec![TokenId(2); 5], 5);
        slots.touch(SlotId(0));
        assert_eq!(slots.least_recently_used().map(|(slot, _)| slot), Some(SlotId(1)));
        let chances: Vec<f64> = slots.idle().map(|(_, prefix)| slots.chance(prefix)).collect();
        assert!(chances[0] > chances[1] && chances[1] > 0.0 && chances[0] < 1.0, "{chances:?}");
        assert_eq!(slots.num_idle_cells(), 6);
        assert_eq!(slots.take_idle(SlotId(1)).map(|prefix| prefix.tokens.len()), Some(5));
        assert!(slots.take_idle(SlotId(1)).is_none());
        slots.set_busy(SlotId(2), Owners::default());
        assert!(slots.take_idle(SlotId(2)).is_none());
        assert!(slots.has_busy() && slots.has_free());
    }

    fn busy(num_slots: usize, at: &[u32]) -> Slots {
        let mut slots = Slots::new(num_slots);
        for &slot in at {
            slots.set_busy(SlotId(slot), Owners::default());
        }
        slots
    }

    #[test]
    fn running_sequences_beside_a_slot_are_counted() {
        let slots = busy(8, &[2, 3, 5, 7]);
        let neighbours: Vec<usize> = (0..8).map(|slot| slots.num_neighbours(SlotId(slot))).collect();
        assert_eq!(neighbours, [0, 1, 1, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn the_smaller_one_moves() {
        let slots = busy(8, &[1, 5]);
        assert_eq!(slots.closing_move(SlotId::index), Some((SlotId(1), SlotId(4))));
        assert_eq!(slots.closing_move(|slot| 9 - slot.index()), Some((SlotId(5), SlotId(0))));
    }

    #[test]
    fn gaps_between_running_sequences_close() {
        for at in [vec![0, 2, 4, 6], vec![0, 1, 6, 7], vec![3, 4, 5], vec![1, 7], vec![0, 3, 4, 7]] {
            let mut slots = busy(8, &at);
            let mut num_moves = 0;
            while let Some((from, to)) = slots.closing_move(|_| 1) {
                slots.set_empty(from);
                slots.set_busy(to, Owners::default());
                num_moves += 1;
                assert!(num_moves <= at.len(), "{at:?} does not settle");
            }
            let left: Vec<usize> = (0..8).filter(|&index| !slots.uses[index].is_free()).collect();
            assert_eq!(left.len(), at.len());
            assert_eq!(left[left.len() - 1] - left[0] + 1, left.len(), "{left:?}");
        }
    }
}
