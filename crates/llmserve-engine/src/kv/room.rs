//! Room: which slots and cells are free, and which idle cells give way when none are.

use crate::ids::SlotId;

use super::KvCache;
use super::place::{Held, Room};
use super::slots::SlotUse;

impl KvCache {
    /// Whether a sequence of a number of tokens can come in: a slot is free, and in a unified pool cells for all its
    /// tokens beside those that the running sequences are bound to need (`num_bound_cells`, 0 when none runs).
    pub(crate) fn has_room_for(&self, num_tokens: usize, num_bound_cells: usize) -> bool {
        let is_alone = num_bound_cells == 0;
        let has_slot = self.slots.has_free() && (!self.is_closed || is_alone);
        has_slot && (!self.is_unified() || is_alone || num_bound_cells + num_tokens < self.limits().num_cells)
    }

    /// How many rows have cells beside those of running sequences. In a unified pool idle cells give way until
    /// `wanted` have.
    pub(crate) fn make_room(&mut self, wanted: usize, num_running_cells: usize) -> usize {
        if !self.is_unified() {
            return usize::MAX;
        }
        loop {
            let used = num_running_cells + self.slots.num_idle_cells();
            let free = self.limits().num_cells.saturating_sub(used);
            if free >= wanted || !self.evict_oldest() {
                return free;
            }
        }
    }

    /// Lets idle cells give way to a state that is to be restored.
    pub(super) fn make_cells(&mut self, num_tokens: usize, num_running_cells: usize) {
        self.make_room(num_tokens, num_running_cells);
    }

    /// Lets the least recently used idle cells give way; false if there are none.
    pub(crate) fn evict_oldest(&mut self) -> bool {
        let oldest = self.slots.least_recently_used().map(|(slot, _)| slot);
        oldest.inspect(|&slot| self.evict(slot)).is_some()
    }

    /// Admits nobody until a running sequence has ended: llama.cpp found fewer cells than were counted.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Empties an idle slot; its cells go to host memory if that costs less than they are worth.
    pub(super) fn evict(&mut self, slot: SlotId) {
        let held = self.held(slot);
        let Some(prefix) = self.slots.take_idle(slot) else {
            return;
        };
        if held.is_some_and(|held| held.loss(held.len, &self.prices()).is_saved) {
            self.park(slot, prefix.tokens, prefix.num_prompt, prefix.owners);
        }
        self.context.clear(slot);
    }

    /// The slots that a new sequence may get.
    pub(super) fn rooms(&self) -> Vec<Room> {
        let free = self.slots.uses().filter(|(_, slot_use)| !matches!(slot_use, SlotUse::Busy(_)));
        free.map(|(slot, _)| self.room(slot)).collect()
    }

    pub(super) fn room(&self, slot: SlotId) -> Room {
        // Elsewhere it does not matter which slots are beside each other.
        let splits = self.limits().splits_batches;
        let num_neighbours = if splits { self.slots.num_neighbours(slot) } else { 0 };
        let is_apart = splits && num_neighbours == 0 && self.slots.has_busy();
        Room { slot, held: self.held(slot), num_neighbours, is_apart }
    }

    /// The contents of an idle slot.
    pub(super) fn held(&self, slot: SlotId) -> Option<Held> {
        let (_, prefix) = self.slots.idle().find(|(idle, _)| *idle == slot)?;
        let chance = if prefix.owners.are_gone() { 0.0 } else { self.slots.chance(prefix) };
        Some(self.held_of(prefix.tokens.len(), chance))
    }

    pub(super) fn held_of(&self, len: usize, chance: f64) -> Held {
        let bytes = self.rates.bytes_of(len);
        Held { len, bytes, can_save: bytes > 0 && bytes <= self.parking.capacity(), chance }
    }
}
