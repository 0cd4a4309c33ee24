//! The draft context in llama.cpp: batches of tokens with hidden rows, their results, and cells.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::params::CELL_PADDING;
use super::raw_context::{Missing, RawContext};
use super::{ContextShape, Weights, params, shim};
use crate::config::{ContextConfig, KvLayout};
use crate::error::Error;
use crate::ids::{SlotId, TokenId};
use crate::sampler::argmax;
use crate::types::MAX_DRAFT_TOKENS;

/// A llama.cpp context of type MTP, made and used on the target's thread.
pub(super) struct HeadContext {
    raw: RawContext,
    memory: sys::llama_memory_t,
    /// Values of a hidden row.
    width: usize,
    vocabulary_size: usize,
    is_unified: bool,
}

/// A row of a batch.
pub(super) struct Row<'a> {
    pub(super) slot: SlotId,
    pub(super) token: TokenId,
    pub(super) position: usize,
    /// The hidden row of the position before.
    pub(super) hidden: &'a [f32],
    /// Whether its logits and hidden row are wanted.
    pub(super) output: bool,
}

impl HeadContext {
    /// Makes the draft context of a target.
    pub(super) fn new(
        weights: &Arc<Weights>,
        target: &RawContext,
        config: &ContextConfig,
        shape: &ContextShape,
    ) -> Result<Self, Error> {
        let failed = |reason| Error::DraftContext { reason };
        let mut context_params = params::context_params(config, shape);
        context_params.ctx_type = sys::LLAMA_CONTEXT_TYPE_MTP;
        context_params.ctx_other = target.ctx();
        if shape.layout == KvLayout::Unified {
            // Guesses need cells too, while those of the target may all be in use.
            let num_guesses = shape.num_slots * (MAX_DRAFT_TOKENS + 1);
            context_params.n_ctx += num_guesses.next_multiple_of(CELL_PADDING) as u32;
        }
        let raw = RawContext::new(weights, context_params).map_err(|missing| match missing {
            Missing::Context => failed("llama.cpp could not make it, most likely for lack of memory"),
            Missing::Batch => failed("llama.cpp could not make a batch"),
        })?;
        // SAFETY: the context is live; rows with output only.
        unsafe { shim::set_hidden_rows(raw.ctx(), true, true) };
        // SAFETY: context, model and vocabulary are live.
        let (memory, width, vocabulary_size) = unsafe {
            (
                sys::llama_get_memory(raw.ctx()),
                sys::llama_model_n_embd_out(weights.as_ptr()),
                sys::llama_vocab_n_tokens(weights.vocab()),
            )
        };
        Ok(Self {
            raw,
            memory,
            width: usize::try_from(width).unwrap_or(0),
            vocabulary_size: usize::try_from(vocabulary_size).unwrap_or(0),
            is_unified: shape.layout == KvLayout::Unified,
        })
    }

    /// Values of a hidden row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Copies the cells of `from` to `to`, which is empty.
    pub(super) fn copy_cells(&mut self, from: SlotId, to: SlotId) -> bool {
        let (from, to) = (from.0.cast_signed(), to.0.cast_signed());
        // SAFETY: the context is live and only used here.
        unsafe {
            if self.is_unified {
                return shim::copy(self.memory, from, to);
            }
            let state = shim::state_get(self.raw.ctx(), from, usize::MAX);
            !state.is_empty() && shim::state_set(self.raw.ctx(), to, &state)
        }
    }

    /// The cells of a slot as bytes; empty if that failed.
    pub(super) fn save(&mut self, slot: SlotId) -> Vec<u8> {
        // SAFETY: the context is live and only used here.
        unsafe { shim::state_get(self.raw.ctx(), slot.0.cast_signed(), usize::MAX) }
    }

    /// How many bytes [`Self::save`] would give now.
    pub(super) fn state_bytes(&mut self, slot: SlotId) -> usize {
        // SAFETY: the context is live and only used here.
        unsafe { shim::state_size(self.raw.ctx(), slot.0.cast_signed()) }
    }

    /// Restores the saved cells of `num_tokens` tokens into an empty slot; false if `cells` does not contain them.
    pub(super) fn restore(&mut self, slot: SlotId, cells: &[u8], num_tokens: usize) -> bool {
        let slot = slot.0.cast_signed();
        // SAFETY: the context is live and only used here.
        unsafe {
            shim::state_set(self.raw.ctx(), slot, cells)
                && sys::llama_memory_seq_pos_max(self.memory, slot) + 1 == num_tokens as i32
        }
    }

    /// Removes the cells of a slot from a position on.
    pub(super) fn drop_from(&mut self, slot: SlotId, position: usize) {
        // SAFETY: the context is live and only used here.
        if !unsafe { shim::remove_from(self.memory, slot.0.cast_signed(), position as i32) } {
            log::error!("llama.cpp did not cut back the draft cells of slot {}", slot.0);
        }
    }

    /// Computes rows and adds their cells; false: it could not, and the cells of their slots are undefined.
    pub(super) fn decode(&mut self, rows: &[Row<'_>]) -> bool {
        // SAFETY: the batch is live.
        unsafe { sys::llama_batch_ext_clear(self.raw.batch()) };
        if rows.is_empty() || !rows.iter().all(|row| self.add_row(row)) {
            return false;
        }
        // SAFETY: context and batch are live and only used here.
        let code = unsafe { shim::decode(self.raw.ctx(), self.raw.batch()) };
        if code != 0 {
            log::warn!("a batch of {} rows failed in the draft context with code {code}", rows.len());
        }
        code == 0
    }

    fn add_row(&self, row: &Row<'_>) -> bool {
        let batch = self.raw.batch();
        let position = row.position as i32;
        let hidden = sys::llama_embd { data: row.hidden.as_ptr(), n_rows: 1, n_embd: row.hidden.len() };
        // SAFETY: batch and row are live; llama.cpp checks slot, token and sizes.
        unsafe {
            let index = sys::llama_batch_ext_add_token(batch, row.slot.0.cast_signed(), row.token.0);
            index >= 0
                && sys::llama_batch_ext_set_embd_token(batch, index, hidden)
                && sys::llama_batch_ext_set_pos(batch, index, &raw const position)
                && sys::llama_batch_ext_set_output_logits(batch, index, row.output)
        }
    }

    /// The likeliest token after a row of the last batch, and the row's hidden state.
    pub(super) fn output(&self, row: usize) -> Option<(TokenId, Vec<f32>)> {
        let index = i32::try_from(row).ok()?;
        // SAFETY: the context is live.
        let (logits, hidden) = unsafe {
            (sys::llama_get_logits_ith(self.raw.ctx(), index), shim::hidden_row(self.raw.ctx(), index))
        };
        if logits.is_null() || hidden.is_null() {
            return None;
        }
        // SAFETY: llama.cpp keeps a row of each until the next batch.
        let (logits, hidden) = unsafe {
            (
                std::slice::from_raw_parts(logits, self.vocabulary_size),
                std::slice::from_raw_parts(hidden, self.width),
            )
        };
        let (token, logit) = argmax(logits)?;
        logit.is_finite().then(|| (TokenId(token as i32), hidden.to_vec()))
    }
}
