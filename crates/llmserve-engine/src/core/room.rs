//! Room: which slots and cells are free, and who gives way when none are.

use std::sync::Weak;

use crate::cache::ParkedPrefix;
use crate::config::KvLayout;
use crate::ids::{SlotId, TokenId};
use crate::sequence::{ParkedState, Sequence};

use super::{Core, Waiting};

/// Shorter prefixes are not worth saving when their slot is needed.
pub(super) const MIN_PARKED_TOKENS: usize = 32;

impl Core {
    pub(super) fn num_used_cells(&self) -> usize {
        self.num_running_cells() + self.slots.num_idle_cells()
    }

    fn num_running_cells(&self) -> usize {
        self.running.iter().map(|sequence| sequence.num_computed).sum()
    }

    fn is_unified(&self) -> bool {
        self.context.limits().layout == KvLayout::Unified
    }

    /// Whether a waiting sequence can be admitted now: a slot, and in a unified pool cells for all
    /// its tokens beside what the running ones are bound to need.
    pub(super) fn has_room_for(&self, sequence: &Sequence) -> bool {
        let has_slot = self.slots.has_free() && (!self.is_admission_closed || self.running.is_empty());
        if !has_slot || !self.is_unified() || self.running.is_empty() {
            return has_slot;
        }
        // One more cell each, for the next step.
        let bound: usize = self.running.iter().map(|other| other.tokens.len() + 1).sum();
        bound + sequence.tokens.len() < self.context.limits().num_cells
    }

    /// The best slot for a new sequence, emptied.
    pub(super) fn free_slot(&mut self) -> Option<SlotId> {
        let slot = self.choose_slot(None)?;
        self.evict(slot);
        Some(slot)
    }

    pub(super) fn choose_slot(&self, preferred: Option<SlotId>) -> Option<SlotId> {
        self.slots.choose(self.context.limits().splits_batches, preferred)
    }

    /// Moves a sequence beside the others where llama.cpp would compute them apart. A copy costs less
    /// than a step, and every further step would read all weights once more.
    pub(super) fn close_gaps(&mut self) {
        if !self.context.limits().splits_batches || self.is_gap_accepted {
            return;
        }
        let Some((from, to)) = self.slots.closing_move() else {
            return;
        };
        let Some(index) = self.running.iter().position(|sequence| sequence.slot == Some(from)) else {
            return;
        };
        if !self.can_evict_unharmed(to) {
            self.is_gap_accepted = true;
            return;
        }
        self.evict(to);
        if !self.context.copy(from, to) {
            self.is_gap_accepted = true;
            return;
        }
        self.context.clear(from);
        self.slots.set_empty(from);
        self.slots.set_busy(to, self.running[index].id());
        self.running[index].slot = Some(to);
    }

    /// Whether no conversation is lost if this slot is emptied.
    fn can_evict_unharmed(&mut self, slot: SlotId) -> bool {
        self.slots.num_idle_tokens(slot) < MIN_PARKED_TOKENS
            || self.parking.can_hold(self.context.state_bytes(slot))
    }

    /// Empties an idle slot; what it held goes to host memory if it is worth it.
    pub(super) fn evict(&mut self, slot: SlotId) {
        if let Some(prefix) = self.slots.take_idle(slot) {
            self.park_prefix(slot, prefix.tokens);
            self.context.clear(slot);
        }
    }

    /// Copies what a slot holds to host memory, if it is worth it.
    pub(super) fn park_prefix(&mut self, slot: SlotId, tokens: Vec<TokenId>) {
        let is_wanted = tokens.len() >= MIN_PARKED_TOKENS && !self.parking.has(&tokens);
        if !is_wanted || !self.parking.can_hold(self.context.state_bytes(slot)) {
            return;
        }
        let can_trim = self.context.limits().trims_anywhere;
        let can_draft = self.context.can_draft(slot);
        if let Some(state) = self.context.save(slot) {
            self.parking.park_prefix(ParkedPrefix {
                tokens,
                state,
                can_trim,
                can_draft,
                awaited: Weak::new(),
            });
        }
    }

    /// The most rows that the next step may have; in a unified pool, idle cells and then the
    /// youngest sequences give way until every running sequence has a cell for its next row.
    pub(super) fn rows_with_room(&mut self) -> Option<usize> {
        if self.running.is_empty() {
            return None;
        }
        let limits = *self.context.limits();
        if !self.is_unified() {
            return Some(limits.batch_size);
        }
        loop {
            let free = limits.num_cells.saturating_sub(self.num_used_cells());
            let enough = self.running.iter().map(Sequence::num_pending).sum::<usize>().min(limits.batch_size);
            if free < enough && self.evict_least_recently_used() {
                continue;
            }
            if free >= self.running.len() || !self.preempt_youngest() {
                return Some(limits.batch_size.min(free));
            }
        }
    }

    /// Frees cells after llama.cpp found none, against the count: sliding windows keep a cell that
    /// several sequences share.
    pub(super) fn make_room(&mut self) -> bool {
        if self.evict_least_recently_used() {
            return true;
        }
        let is_preempted = self.preempt_youngest();
        self.is_admission_closed = is_preempted;
        is_preempted
    }

    /// In a unified pool, lets idle cells give way to a state that is to be restored.
    pub(super) fn make_cells(&mut self, num_tokens: usize) {
        while self.is_unified() && self.context.limits().num_cells < self.num_used_cells() + num_tokens {
            if !self.evict_least_recently_used() {
                return;
            }
        }
    }

    fn evict_least_recently_used(&mut self) -> bool {
        let oldest = self.slots.least_recently_used().map(|(slot, _)| slot);
        oldest.inspect(|&slot| self.evict(slot)).is_some()
    }

    /// Sends the youngest of several running sequences back to the queue. Its state is saved in
    /// host memory where the limit allows, since computing it again is dear.
    fn preempt_youngest(&mut self) -> bool {
        if self.running.len() < 2 {
            return false;
        }
        let youngest = self.running.iter().enumerate().max_by_key(|(_, sequence)| sequence.arrival);
        let Some(index) = youngest.map(|(index, _)| index) else {
            return false;
        };
        let mut sequence = self.remove_running(index);
        if let Some(slot) = sequence.slot.take() {
            sequence.parked = self.park_state(slot, sequence.num_computed);
            self.context.clear(slot);
            self.slots.set_empty(slot);
        }
        sequence.num_computed = 0;
        self.stats.preemptions += 1;
        self.waiting.push_front(Waiting { sequence, place: None });
        true
    }

    fn park_state(&mut self, slot: SlotId, num_computed: usize) -> Option<ParkedState> {
        if num_computed == 0 || !self.parking.can_hold(self.context.state_bytes(slot)) {
            return None;
        }
        let bytes = self.context.save(slot)?;
        self.parking.reserve_sequence(bytes.len()).then_some(ParkedState { bytes, num_computed })
    }

    /// Gives the host memory of a preempted sequence back.
    pub(super) fn release_parked(&mut self, sequence: &Sequence) {
        if let Some(parked) = &sequence.parked {
            self.parking.release_sequence(parked.bytes.len());
        }
    }

    /// Leaves the cells of a sequence that is over to later requests.
    pub(super) fn keep_cells(&mut self, sequence: &mut Sequence) {
        let Some(slot) = sequence.slot.take() else {
            return;
        };
        let tokens = &mut sequence.tokens;
        tokens.truncate(sequence.num_computed);
        if tokens.is_empty() || !self.config.prefix_cache || !sequence.request.cache_prompt {
            self.context.clear(slot);
            self.slots.set_empty(slot);
            return;
        }
        self.slots.keep(slot, std::mem::take(tokens));
        // In one pool every row scans up to the highest used cell, so idle cells are bounded.
        while self.is_unified() && self.slots.num_idle_cells() > self.context.limits().num_cells / 4 {
            if !self.evict_least_recently_used() {
                break;
            }
        }
    }
}
