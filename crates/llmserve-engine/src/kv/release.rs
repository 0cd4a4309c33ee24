//! Releases the cells of sequences that end or give way.

use crate::ids::{SlotId, TokenId};

use super::{KvCache, Owners, ParkedPrefix, place};

/// The cells of a sequence that had to give way, in host memory.
pub(crate) struct Suspended {
    pub(super) state: Vec<u8>,
    pub(super) num_tokens: usize,
    pub(super) owners: Owners,
}

impl KvCache {
    /// Takes a slot back. Its cells, of these tokens, stay for later requests. `num_prompt`: how many are of a prompt.
    pub(crate) fn release(&mut self, slot: SlotId, mut tokens: Vec<TokenId>, num_prompt: usize) {
        if self.limits().is_deterministic {
            // Generated tokens, and the rest after whole tiles, may be computed differently as part of a prompt.
            let tile = self.limits().tile;
            tokens.truncate(num_prompt / tile * tile);
            tokens.truncate(self.trim_to(slot, tokens.len()));
        }
        if tokens.is_empty() || !self.keeps_prefixes {
            return self.clear(slot);
        }
        self.learn_size(slot, tokens.len());
        self.slots.keep(slot, tokens, num_prompt);
        // In one pool every row scans up to the highest used cell, so idle cells are bounded.
        while self.is_unified() && self.slots.num_idle_cells() > self.limits().num_cells / 4 {
            if !self.evict_oldest() {
                break;
            }
        }
    }

    /// Takes a slot back with its cells.
    pub(crate) fn clear(&mut self, slot: SlotId) {
        self.context.clear(slot);
        self.slots.set_empty(slot);
    }

    /// Takes the slot of a sequence that must give way; returns its cells, if they are saved.
    pub(crate) fn suspend(&mut self, slot: SlotId, num_tokens: usize) -> Option<Suspended> {
        self.learn_size(slot, num_tokens);
        let bytes = self.rates.bytes_of(num_tokens);
        let is_saved = num_tokens > 0 && place::is_saved_for_later(num_tokens, bytes, &self.prices());
        let state = if is_saved { self.save(slot, num_tokens) } else { None };
        let owners = self.slots.owners(slot).cloned().unwrap_or_default();
        self.clear(slot);
        let state = state.filter(|state| self.parking.reserve_sequence(state.len()))?;
        Some(Suspended { state, num_tokens, owners })
    }

    /// Frees what was saved of a sequence that will not resume.
    pub(crate) fn discard(&mut self, suspended: &Suspended) {
        self.parking.release_sequence(suspended.state.len());
    }

    /// Where the state of a prompt is to be kept on the way, since its cells cannot be cut back: before its last
    /// token, whose logits are needed again by whoever repeats the prompt or asks for another answer.
    pub(crate) fn checkpoint_position(&self, num_prompt: usize) -> Option<usize> {
        let is_wanted = !self.limits().trims_anywhere
            && self.keeps_prefixes
            && self.parking.capacity() > 0
            && num_prompt > place::MIN_SAVED;
        is_wanted.then(|| num_prompt - 1)
    }

    /// Keeps a copy of a running sequence's cells.
    pub(crate) fn keep_checkpoint(&mut self, slot: SlotId, tokens: &[TokenId]) {
        self.learn_size(slot, tokens.len());
        let held = self.held_of(tokens.len(), 0.5);
        if held.loss(tokens.len(), &self.prices()).is_saved {
            let owners = self.slots.owners(slot).cloned().unwrap_or_default();
            self.park(slot, tokens.to_vec(), tokens.len(), owners);
        }
    }

    /// Copies the cells of a slot to host memory, unless they are there already.
    pub(super) fn park(&mut self, slot: SlotId, tokens: Vec<TokenId>, num_prompt: usize, owners: Owners) {
        let can_draft = self.context.can_draft(slot);
        if owners.is_everybody() && self.parking.covers(&tokens, can_draft) {
            return;
        }
        let can_trim = self.limits().trims_anywhere;
        if let Some(state) = self.save(slot, tokens.len()) {
            let is_awaited = false;
            let prefix = ParkedPrefix { tokens, num_prompt, state, can_trim, can_draft, owners, is_awaited };
            self.parking.park_prefix(prefix);
        }
    }
}
