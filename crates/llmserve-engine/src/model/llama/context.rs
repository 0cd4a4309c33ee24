//! A llama.cpp context with its batch and memory.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::adapters::Adapters;
use super::draft_context::DraftContext;
use super::kept_logits::KeptLogits;
use super::limits::{Trimming, limits, trimming};
use super::raw_context::RawContext;
use super::rollback::Rollback;
use super::slot_state::{self, SlotState};
use super::tiles::{self, TILE};
use super::{ContextShape, Weights, params, shim, state_cells};
use crate::config::{ContextConfig, KvLayout};
use crate::error::{Error, LoadError};
use crate::ids::{SlotId, TokenId};
use crate::model::{Compute, Context, ContextLimits, DecodeError, DraftRequest, Row};

/// Tokens of a cleared slot whose memory is worth a call into the system for each tensor of the cache.
const WORTH_GIVING_BACK: usize = 512;

/// A context, made and used on one thread.
pub(crate) struct LlamaContext {
    // Dropped in this order: the draft context refers to the context, and the context to the adapters.
    draft: Option<DraftContext>,
    raw: RawContext,
    _adapters: Adapters,
    memory: sys::llama_memory_t,
    limits: ContextLimits,
    vocabulary_size: usize,
    trimming: Trimming,
    rollback: Rollback,
    /// Logits of the last batch, if it took several calls.
    kept: Option<KeptLogits>,
    /// The options with which the draft context is made.
    config: ContextConfig,
    shape: ContextShape,
    weights: Arc<Weights>,
}

impl LlamaContext {
    pub(crate) fn new(
        weights: Arc<Weights>,
        config: &ContextConfig,
        shape: &ContextShape,
    ) -> Result<Self, LoadError> {
        let num_snapshots = params::num_snapshots(&weights, config);
        if weights.has_draft_head() && weights.is_recurrent() && num_snapshots == 0 {
            log::warn!("batch_size and ubatch_size are too small for drafts on this model");
        }
        let mut context_params = params::context_params(config, shape);
        context_params.n_rs_seq = num_snapshots as u32;
        let mut adapters = Adapters::new(&weights);
        let raw = RawContext::new(&weights, context_params)
            .map_err(|missing| missing.into_load_error(context_failed(shape)))?;
        adapters.apply(&raw, &config.lora)?;
        // SAFETY: the context is live.
        let memory = unsafe { sys::llama_get_memory(raw.ctx()) };
        // SAFETY: the vocabulary is live.
        let vocabulary_size = unsafe { sys::llama_vocab_n_tokens(weights.vocab()) };
        if weights.has_draft_head() {
            // SAFETY: the context is live. Without a draft context no hidden rows are wanted.
            unsafe { shim::set_hidden_rows(raw.ctx(), false, true) };
        }
        let trimming = trimming(&weights);
        Ok(Self {
            draft: None,
            raw,
            _adapters: adapters,
            memory,
            limits: limits(config, shape, trimming, num_snapshots),
            vocabulary_size: usize::try_from(vocabulary_size).unwrap_or(0),
            trimming,
            rollback: Rollback::new(shape.num_slots, num_snapshots),
            kept: None,
            config: config.clone(),
            shape: *shape,
            weights,
        })
    }

    /// Cells of a slot: the first position and the one after the last.
    fn positions(&self, slot: SlotId) -> (usize, usize) {
        let seq = slot.0.cast_signed();
        // SAFETY: the context is live; the slot is below `n_seq_max`.
        let (min, max) = unsafe {
            (sys::llama_memory_seq_pos_min(self.memory, seq), sys::llama_memory_seq_pos_max(self.memory, seq))
        };
        (usize::try_from(min).unwrap_or(0), usize::try_from(i64::from(max) + 1).unwrap_or(0))
    }

    fn slots(&self) -> impl Iterator<Item = SlotId> + use<> {
        (0..self.limits.num_slots as u32).map(SlotId)
    }

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

    /// Computes rows in one call.
    fn compute(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        // SAFETY: the batch is live.
        unsafe { sys::llama_batch_ext_clear(self.raw.batch()) };
        if !rows.iter().all(|row| self.add_row(row)) {
            return Err(DecodeError::Failed(-1));
        }
        // SAFETY: context and batch are live and only used here.
        match unsafe { shim::decode(self.raw.ctx(), self.raw.batch()) } {
            0 => {
                self.rollback.note(rows);
                self.follow(rows)
            }
            1 => Err(DecodeError::KvFull),
            code => Err(DecodeError::Failed(code)),
        }
    }

    /// The failure of a batch whose first parts had been computed: if cells were missing, the slots are restored as
    /// far as possible.
    fn after_failed_part(
        &mut self,
        computed: &[Vec<usize>],
        rows: &[Row],
        error: DecodeError,
    ) -> DecodeError {
        if error != DecodeError::KvFull {
            return error;
        }
        for part in computed {
            for own in part.chunk_by(|&a, &b| rows[a].slot == rows[b].slot) {
                let Row { slot, position, .. } = rows[own[0]];
                if !self.can_trim(slot, position as usize) || !self.trim(slot, position as usize) {
                    return DecodeError::Failed(1);
                }
            }
        }
        error
    }

    /// Logits of the last call.
    fn computed_logits(&self, index: usize) -> Option<&[f32]> {
        // SAFETY: the context is live.
        let logits = unsafe { sys::llama_get_logits_ith(self.raw.ctx(), i32::try_from(index).ok()?) };
        if logits.is_null() {
            return None;
        }
        // SAFETY: llama.cpp gives one value per token, valid until the next decode, which needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(logits, self.vocabulary_size) })
    }

    /// Hands what was computed to the draft context.
    fn follow(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        let Some(draft) = &mut self.draft else {
            return Ok(());
        };
        // SAFETY: the context is live and only used here.
        let hidden = unsafe { shim::hidden_rows(self.raw.ctx()) };
        if hidden.is_null() {
            return Err(DecodeError::Failed(-1));
        }
        // SAFETY: one hidden row for each row of the batch, in its order, until the next batch.
        let hidden = unsafe { std::slice::from_raw_parts(hidden, rows.len() * draft.width()) };
        for (row, hidden) in rows.iter().zip(hidden.chunks_exact(draft.width())) {
            draft.push(row.slot, row.token, hidden);
        }
        draft.take_in_oversized();
        Ok(())
    }

    fn add_row(&mut self, row: &Row) -> bool {
        let batch = self.raw.batch();
        let position = row.position.cast_signed();
        // SAFETY: the batch is live; llama.cpp checks slot, token and size.
        unsafe {
            let index = sys::llama_batch_ext_add_token(batch, row.slot.0.cast_signed(), row.token.0);
            index >= 0
                && sys::llama_batch_ext_set_pos(batch, index, &raw const position)
                && sys::llama_batch_ext_set_output_logits(batch, index, row.output)
        }
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

impl Compute for LlamaContext {
    fn limits(&self) -> &ContextLimits {
        &self.limits
    }

    fn decode(&mut self, rows: &[Row]) -> Result<(), DecodeError> {
        let parts = match self.limits.tile {
            TILE => tiles::parts(rows, self.limits.is_deterministic),
            _ if self.limits.is_deterministic => tiles::sequences(rows),
            _ => self.rollback.parts(rows),
        };
        self.rollback.forget_all();
        self.kept = None;
        if parts.len() <= 1 {
            return self.compute(rows);
        }
        let mut kept = KeptLogits::new(rows.len());
        for (number, part) in parts.iter().enumerate() {
            let own: Vec<Row> = part.iter().map(|&index| rows[index]).collect();
            if let Err(error) = self.compute(&own) {
                return Err(self.after_failed_part(&parts[..number], rows, error));
            }
            for (row, &index) in part.iter().enumerate().filter(|(_, index)| rows[**index].output) {
                kept.keep(index, self.computed_logits(row));
            }
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn logits(&self, index: usize) -> Option<&[f32]> {
        match &self.kept {
            Some(kept) => kept.get(index),
            None => self.computed_logits(index),
        }
    }

    fn open_head(&mut self) -> Result<(), Error> {
        if !self.weights.has_draft_head() {
            return Err(Error::NoDraftHead);
        }
        if self.draft.is_none() {
            let lengths: Vec<usize> = self.slots().map(|slot| self.positions(slot).1).collect();
            let (config, shape) = (&self.config, &self.shape);
            self.draft =
                Some(DraftContext::new(&self.weights, &self.raw, config, shape, lengths.into_iter())?);
            // SAFETY: the context is live: hidden rows of all rows.
            unsafe { shim::set_hidden_rows(self.raw.ctx(), true, false) };
        }
        Ok(())
    }

    fn close_head(&mut self) {
        if self.draft.take().is_some() {
            // SAFETY: the context is live.
            unsafe { shim::set_hidden_rows(self.raw.ctx(), false, true) };
        }
    }

    fn can_draft(&self, slot: SlotId) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.can_draft(slot))
    }

    fn take_in(&mut self, slots: &[SlotId]) {
        if let Some(draft) = &mut self.draft {
            draft.take_in_long(slots);
        }
    }

    fn draft(&mut self, requests: &[DraftRequest]) -> Vec<Vec<TokenId>> {
        match &mut self.draft {
            Some(draft) => draft.draft(requests),
            None => vec![Vec::new(); requests.len()],
        }
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

fn context_failed(shape: &ContextShape) -> String {
    format!(
        "llama.cpp could not make a context of {} sequences of {} tokens; lower `context_length` or `max_sequences`, or \
         choose another `flash_attention` or KV type",
        shape.num_slots, shape.context_length
    )
}
