//! Gaps between running sequences, where llama.cpp computes rows together only as far as their slots are adjacent:
//! each gap costs a further reading of all weights in every step.

use crate::ids::SlotId;

use super::place::closes_gap;
use super::{KvCache, Resident};

impl KvCache {
    /// Whether looking for gaps may be worth it.
    pub(crate) fn may_have_gap(&self) -> bool {
        self.limits().splits_batches && !self.is_gap_accepted
    }

    /// Moves a sequence beside the others, if that costs less than the gap; returns from where to where. A gap that stays is
    /// not looked at again until the running sequences change.
    pub(crate) fn close_gap(&mut self, residents: &[Resident<'_>]) -> Option<(SlotId, SlotId)> {
        self.is_gap_accepted = true;
        let resident = |slot: SlotId| residents.iter().find(|resident| resident.slot == slot);
        let num_cells = |slot| resident(slot).map_or(0, |resident| resident.num_computed);
        let (from, to) = self.slots.closing_move(num_cells)?;
        let Resident { num_computed, num_left, .. } = *resident(from)?;
        self.learn_size(from, num_computed);
        if !closes_gap(self.copy_bytes(num_computed), num_left, &self.room(to), &self.prices()) {
            return None;
        }
        self.evict(to);
        if !self.copy(from, to, num_computed) {
            return None;
        }
        let owners = self.slots.owners(from).cloned().unwrap_or_default();
        self.clear(from);
        self.slots.set_busy(to, owners);
        self.is_gap_accepted = false;
        Some((from, to))
    }
}
