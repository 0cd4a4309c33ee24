//! A llama.cpp context for an embedding model: it turns inputs into pooled vectors, or into the scores of a head
//! for ranking, and keeps nothing.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::params::{self, EmbeddingShape};
use super::raw_context::RawContext;
use super::{Weights, shim};
use crate::config::ContextConfig;
use crate::error::LoadError;
use crate::ids::TokenId;
use crate::model::{DecodeError, EmbeddingContext, EmbeddingLimits};

/// A context, made and used on one thread.
pub(crate) struct LlamaEmbedding {
    raw: RawContext,
    /// `None` for models without a KV cache.
    memory: Option<sys::llama_memory_t>,
    limits: EmbeddingLimits,
    /// Maximum number of rows in one call.
    max_rows: usize,
}

impl LlamaEmbedding {
    pub(crate) fn new(
        weights: &Arc<Weights>,
        config: &ContextConfig,
        shape: &EmbeddingShape,
    ) -> Result<Self, LoadError> {
        let raw = RawContext::new(weights, params::embedding_params(config, shape))
            .map_err(|missing| missing.into_load_error(context_failed(shape)))?;
        // SAFETY: the context is live.
        let memory = unsafe { sys::llama_get_memory(raw.ctx()) };
        let dimensions = if shape.kind.is_ranking() {
            // SAFETY: the model is live.
            unsafe { sys::llama_model_n_cls_out(weights.as_ptr()) as usize }
        } else {
            // SAFETY: the model is live.
            usize::try_from(unsafe { sys::llama_model_n_embd_out(weights.as_ptr()) }).unwrap_or(0)
        };
        Ok(Self {
            raw,
            memory: (!memory.is_null()).then_some(memory),
            limits: EmbeddingLimits {
                context_length: shape.context_length,
                batch_rows: shape.batch_rows,
                max_sequences: shape.max_sequences,
                dimensions,
                num_cells: if memory.is_null() { 0 } else { shape.num_cells },
                num_threads: shape.num_threads,
            },
            max_rows: shape.max_rows,
        })
    }

    fn add_row(&mut self, sequence: usize, token: TokenId, position: usize) -> bool {
        let (batch, position) = (self.raw.batch(), position as i32);
        // SAFETY: the batch is live; llama.cpp checks sequence, token and size.
        unsafe {
            let index = sys::llama_batch_ext_add_token(batch, sequence as i32, token.0);
            index >= 0
                && sys::llama_batch_ext_set_pos(batch, index, &raw const position)
                && sys::llama_batch_ext_set_output_embd(batch, index, true)
        }
    }

    /// Computes rows of some sequences: tokens at the positions from `start` on.
    fn process(&mut self, inputs: &[&[TokenId]], start: usize) -> Result<(), DecodeError> {
        // SAFETY: the batch is live and only used here.
        unsafe { sys::llama_batch_ext_clear(self.raw.batch()) };
        for (sequence, input) in inputs.iter().enumerate() {
            for (offset, token) in input.iter().enumerate() {
                if !self.add_row(sequence, *token, start + offset) {
                    return Err(DecodeError::Failed(-1));
                }
            }
        }
        // SAFETY: context and batch are live and only used here. Without a cache llama.cpp encodes.
        match unsafe { shim::decode(self.raw.ctx(), self.raw.batch()) } {
            0 => Ok(()),
            1 => Err(DecodeError::KvFull),
            code => Err(DecodeError::Failed(code)),
        }
    }

    fn compute(&mut self, inputs: &[&[TokenId]]) -> Result<(), DecodeError> {
        let num_rows: usize = inputs.iter().map(|input| input.len()).sum();
        if num_rows <= self.max_rows {
            return self.process(inputs, 0);
        }
        // In parts, which only a single input needs, and only if its last token's vector is wanted.
        let [input] = inputs else { return Err(DecodeError::Failed(-1)) };
        for (part, tokens) in input.chunks(self.max_rows).enumerate() {
            self.process(&[tokens], part * self.max_rows)?;
        }
        Ok(())
    }

    /// Appends the pooled vector of a sequence of the last call.
    fn read(&mut self, sequence: usize, vectors: &mut Vec<f32>) -> Result<(), DecodeError> {
        // SAFETY: the context is live.
        let vector = unsafe { sys::llama_get_embeddings_seq(self.raw.ctx(), sequence as i32) };
        if vector.is_null() {
            return Err(DecodeError::Failed(-1));
        }
        // SAFETY: llama.cpp gives a vector of the model's output size, valid until the next call.
        vectors.extend_from_slice(unsafe { std::slice::from_raw_parts(vector, self.limits.dimensions) });
        Ok(())
    }

    fn clear(&mut self) {
        if let Some(memory) = self.memory {
            // SAFETY: the memory is the live context's. Its buffers need not be zeroed.
            unsafe { sys::llama_memory_clear(memory, false) };
        }
    }
}

impl EmbeddingContext for LlamaEmbedding {
    fn limits(&self) -> &EmbeddingLimits {
        &self.limits
    }

    fn embed(&mut self, inputs: &[&[TokenId]], vectors: &mut Vec<f32>) -> Result<(), DecodeError> {
        let result = self
            .compute(inputs)
            .and_then(|()| (0..inputs.len()).try_for_each(|sequence| self.read(sequence, vectors)));
        self.clear();
        result
    }
}

fn context_failed(shape: &EmbeddingShape) -> String {
    format!(
        "llama.cpp could not make a context for inputs of {} tokens; lower `context_length`, or choose another \
         `flash_attention` or KV type",
        shape.context_length
    )
}
