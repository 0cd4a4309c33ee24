//! The cells of slots: cut back, copied, saved and restored, in target and draft context together.

use super::LlamaContext;
use crate::config::KvLayout;
use crate::ids::SlotId;
use crate::model::Context;
use crate::model::llama::limits::Trimming;
use crate::model::llama::slot_state::{self, SlotState};
use crate::model::llama::{shim, state_cells};

/// Tokens of a cleared slot whose memory is worth a call into the system for each tensor of the cache.
const WORTH_GIVING_BACK: usize = 512;

impl LlamaContext {
    fn trim_target(&mut self, slot: SlotId, position: i32) -> bool {
        self.rollback.forget(slot);
        // SAFETY: the context is live and only used here.
        unsafe { shim::remove_from(self.memory, slot.0.cast_signed(), position) }
    }

    fn restore_target(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool {
        self.rollback.forget_all();
        let is_full = matches!(self.trimming, Trimming::Anywhere);
        // SAFETY: the context is live and only used here.
        let is_restored = (!is_full || state_cells::has_each_position(state, num_tokens))
            && unsafe { shim::state_set(self.raw.ctx(), slot.0.cast_signed(), state) }
            && self.num_tokens(slot) == num_tokens;
        if !is_restored {
            self.clear(slot);
        }
        is_restored
    }

    /// Copies through host memory. llama.cpp's own copy between pools moves all cells of a sequence,
    /// used or not, and only at the next decode: until then neither slot could be saved or restored.
    fn copy_state(&mut self, from: SlotId, to: SlotId) -> bool {
        let (_, num_tokens) = self.positions(from);
        // SAFETY: the context is live and only used here.
        let state = unsafe { shim::state_get(self.raw.ctx(), from.0.cast_signed(), usize::MAX) };
        !state.is_empty() && self.restore_target(to, &state, num_tokens)
    }
}

impl Context for LlamaContext {
    fn num_tokens(&self, slot: SlotId) -> usize {
        self.positions(slot).1
    }

    fn can_trim(&self, slot: SlotId, position: usize) -> bool {
        let (min, end) = self.positions(slot);
        if position == 0 || position == end {
            return true;
        }
        if position > end {
            return false;
        }
        match self.trimming {
            Trimming::Anywhere => true,
            Trimming::WithinWindow(window) => min == 0 || min + window <= position,
            Trimming::Never => end - position <= self.rollback.most(slot),
        }
    }

    fn trim(&mut self, slot: SlotId, position: usize) -> bool {
        let Ok(position) = i32::try_from(position) else {
            return false;
        };
        if let Some(draft) = &mut self.draft {
            draft.trim(slot, position as usize);
        }
        self.trim_target(slot, position)
    }

    fn trim_for_drafts(&mut self, slot: SlotId, position: usize) -> Option<usize> {
        let wanted = match &mut self.draft {
            // Cutting back by one token must be possible.
            Some(draft) if self.limits.trims_anywhere => draft.trim_for_drafts(slot, position),
            Some(_) | None => return self.trim(slot, position).then_some(position),
        };
        let end = i32::try_from(wanted).ok()?;
        self.trim_target(slot, end).then_some(wanted)
    }

    fn clear(&mut self, slot: SlotId) {
        if let Some(draft) = &mut self.draft {
            draft.clear(slot);
        }
        self.rollback.forget(slot);
        let (_, num_tokens) = self.positions(slot);
        // SAFETY: the context is live and only used here.
        if !unsafe { shim::remove_from(self.memory, slot.0.cast_signed(), -1) } {
            log::error!("llama.cpp did not clear slot {}", slot.0);
        } else if num_tokens >= WORTH_GIVING_BACK && self.limits.layout == KvLayout::PerSequence {
            // SAFETY: the slot has no cells, and no other slot uses its place.
            unsafe { self.raw.give_back(slot.0 as usize, self.limits.num_slots) };
        }
    }

    fn copy(&mut self, from: SlotId, to: SlotId) -> bool {
        self.clear(to);
        self.rollback.forget_all();
        // llama.cpp's own copy does not copy a state as it was rolled back.
        let is_shared = self.limits.layout == KvLayout::Unified && !self.rollback.has_snapshots();
        let is_copied = if is_shared {
            // SAFETY: the context is live and only used here.
            unsafe { shim::copy(self.memory, from.0.cast_signed(), to.0.cast_signed()) }
        } else {
            self.copy_state(from, to)
        };
        if !is_copied {
            self.clear(to);
        } else if let Some(draft) = &mut self.draft {
            draft.copy(from, to);
        }
        is_copied
    }

    fn state_bytes(&mut self, slot: SlotId) -> usize {
        // SAFETY: the context is live and only used here.
        let target = unsafe { shim::state_size(self.raw.ctx(), slot.0.cast_signed()) };
        if !self.weights.has_draft_head() {
            return target;
        }
        let draft = self.draft.as_mut().map_or((0, 0), |draft| (draft.state_bytes(slot), draft.width()));
        slot_state::num_bytes(target, draft.0, draft.1)
    }

    fn save(&mut self, slot: SlotId, max_bytes: usize) -> Option<Vec<u8>> {
        // SAFETY: the context is live and only used here.
        let state = unsafe { shim::state_get(self.raw.ctx(), slot.0.cast_signed(), max_bytes) };
        if state.is_empty() {
            return None;
        }
        if !self.weights.has_draft_head() {
            return Some(state);
        }
        let draft = self.draft.as_mut().and_then(|draft| draft.save(slot));
        let state = slot_state::encode(&state, draft.as_ref());
        (state.len() <= max_bytes).then_some(state)
    }

    fn restore(&mut self, slot: SlotId, state: &[u8], num_tokens: usize) -> bool {
        let parts = if self.weights.has_draft_head() {
            slot_state::decode(state)
        } else {
            Some(SlotState { target: state, draft: None })
        };
        let Some(SlotState { target, draft: cells }) = parts else {
            return false;
        };
        let is_restored = self.restore_target(slot, target, num_tokens);
        if is_restored && let Some(draft) = &mut self.draft {
            draft.restore(slot, cells, num_tokens);
        }
        is_restored
    }
}
