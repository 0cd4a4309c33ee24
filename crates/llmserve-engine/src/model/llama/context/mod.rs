//! A llama.cpp context with its batch and memory.

mod cells;
mod compute;

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::adapters::Adapters;
use super::draft_context::DraftContext;
use super::kept_logits::KeptLogits;
use super::limits::{Trimming, limits, trimming};
use super::raw_context::RawContext;
use super::rollback::Rollback;
use super::{ContextShape, Weights, params, shim};
use crate::config::ContextConfig;
use crate::error::LoadError;
use crate::ids::SlotId;
use crate::model::ContextLimits;

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
}

fn context_failed(shape: &ContextShape) -> String {
    format!(
        "llama.cpp could not make a context of {} sequences of {} tokens; lower `context_length` or `max_sequences`, or \
         choose another `flash_attention` or KV type",
        shape.num_slots, shape.context_length
    )
}
