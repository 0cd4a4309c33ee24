//! Converts our configuration to llama.cpp's parameter structs.

use std::ffi::c_char;

use llama_cpp_sys_2 as sys;

use super::Weights;
use super::tiles::TILE;
use crate::config::{
    ContextConfig, FlashAttention, KvLayout, KvType, MetadataValue, RopeScaling, WeightsConfig,
};
use crate::error::LoadError;
use crate::gguf::{EmbeddingKind, Pooling};
use crate::types::MAX_DRAFT_TOKENS;

/// llama.cpp pads the cells of a sequence to this.
pub(super) const CELL_PADDING: usize = 256;

/// The size of a context, chosen from configuration and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextShape {
    /// Maximum number of tokens in one sequence.
    pub(crate) context_length: usize,
    /// Number of sequences.
    pub(crate) num_slots: usize,
    /// Cells of all sequences together.
    pub(crate) num_cells: usize,
    /// Never [`KvLayout::Auto`].
    pub(crate) layout: KvLayout,
    /// Compute threads.
    pub(crate) num_threads: usize,
}

impl ContextShape {
    /// Maximum number of rows in a batch whose logits are wanted: the next token of each sequence and its draft, or
    /// a tile of a prompt whose log-probabilities are requested.
    pub(super) fn max_outputs(&self, batch_size: usize) -> usize {
        let drafted = self.num_slots * (1 + MAX_DRAFT_TOKENS);
        drafted.max(self.num_slots + TILE).min(batch_size).max(self.num_slots)
    }

    /// llama.cpp's `n_ctx`: all cells together.
    pub(crate) fn n_ctx(&self) -> usize {
        match self.layout {
            KvLayout::PerSequence => {
                self.num_slots.saturating_mul(self.context_length.next_multiple_of(CELL_PADDING))
            }
            KvLayout::Unified | KvLayout::Auto => self.num_cells.next_multiple_of(CELL_PADDING),
        }
    }
}

/// The size of an embedding model's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EmbeddingShape {
    /// How the model computes.
    pub(crate) kind: EmbeddingKind,
    /// Maximum number of tokens in one input.
    pub(crate) context_length: usize,
    /// Maximum number of rows of several inputs together.
    pub(crate) batch_rows: usize,
    /// Maximum number of rows in one call: a single input may be as long, or comes in parts of this length.
    pub(crate) max_rows: usize,
    /// Maximum number of inputs that are computed together.
    pub(crate) max_sequences: usize,
    /// KV cells, if the model has them.
    pub(crate) num_cells: usize,
    /// Compute threads.
    pub(crate) num_threads: usize,
}

pub(super) fn model_params(
    config: &WeightsConfig,
    overrides: &[sys::llama_model_kv_override],
    split: &mut [f32],
) -> sys::llama_model_params {
    // SAFETY: a plain constructor.
    let mut params = unsafe { sys::llama_model_default_params() };
    params.load_mode = match (config.use_mmap, config.use_mlock) {
        (true, false) => sys::LLAMA_LOAD_MODE_MMAP,
        (true, true) => sys::LLAMA_LOAD_MODE_MMAP_MLOCK,
        (false, true) => sys::LLAMA_LOAD_MODE_MLOCK,
        (false, false) => sys::LLAMA_LOAD_MODE_NONE,
    };
    params.n_gpu_layers = config.gpu_layers.map_or(-1, |layers| i32::try_from(layers).unwrap_or(i32::MAX));
    params.main_gpu = config.main_gpu.cast_signed();
    if !split.is_empty() {
        params.tensor_split = split.as_ptr();
    }
    if !overrides.is_empty() {
        params.kv_overrides = overrides.as_ptr();
    }
    params
}

/// One value per device that llama.cpp knows, or nothing.
pub(super) fn tensor_split(config: &WeightsConfig) -> Result<Vec<f32>, LoadError> {
    if config.tensor_split.is_empty() {
        return Ok(Vec::new());
    }
    // SAFETY: a plain getter.
    let max = unsafe { sys::llama_max_devices() };
    if config.tensor_split.len() > max {
        let given = config.tensor_split.len();
        return Err(LoadError::invalid_option(
            "tensor_split",
            format!("must have at most {max} values, got {given}"),
        ));
    }
    if config.tensor_split.iter().any(|share| !share.is_finite() || *share < 0.0) {
        return Err(LoadError::invalid_option("tensor_split", "values must be finite and not negative"));
    }
    let mut split = config.tensor_split.clone();
    split.resize(max, 0.0);
    Ok(split)
}

/// The overrides with the empty key that ends them, or nothing.
pub(super) fn metadata_overrides(
    config: &WeightsConfig,
) -> Result<Vec<sys::llama_model_kv_override>, LoadError> {
    if config.metadata_overrides.is_empty() {
        return Ok(Vec::new());
    }
    let mut overrides = Vec::with_capacity(config.metadata_overrides.len() + 1);
    for (key, value) in &config.metadata_overrides {
        overrides.push(metadata_override(key, value)?);
    }
    overrides.push(metadata_override("", &MetadataValue::Int(0))?);
    Ok(overrides)
}

fn metadata_override(key: &str, value: &MetadataValue) -> Result<sys::llama_model_kv_override, LoadError> {
    let (tag, value) = match value {
        MetadataValue::Int(value) => {
            (sys::LLAMA_KV_OVERRIDE_TYPE_INT, sys::llama_model_kv_override__bindgen_ty_1 { val_i64: *value })
        }
        MetadataValue::Float(value) => (
            sys::LLAMA_KV_OVERRIDE_TYPE_FLOAT,
            sys::llama_model_kv_override__bindgen_ty_1 { val_f64: *value },
        ),
        MetadataValue::Bool(value) => (
            sys::LLAMA_KV_OVERRIDE_TYPE_BOOL,
            sys::llama_model_kv_override__bindgen_ty_1 { val_bool: *value },
        ),
        MetadataValue::Str(text) => (
            sys::LLAMA_KV_OVERRIDE_TYPE_STR,
            sys::llama_model_kv_override__bindgen_ty_1 { val_str: fixed_text(text)? },
        ),
    };
    Ok(sys::llama_model_kv_override { tag, key: fixed_text(key)?, __bindgen_anon_1: value })
}

fn fixed_text(text: &str) -> Result<[c_char; 128], LoadError> {
    let mut fixed = [0; 128];
    if text.len() >= fixed.len() || text.contains('\0') {
        let len = text.len();
        let message = format!("keys and texts must have at most 127 bytes and no NUL, got {len} bytes");
        return Err(LoadError::invalid_option("metadata_overrides", message));
    }
    for (target, byte) in fixed.iter_mut().zip(text.bytes()) {
        // Signed on some systems, unsigned on others.
        *target = byte as c_char;
    }
    Ok(fixed)
}

pub(super) fn context_params(config: &ContextConfig, shape: &ContextShape) -> sys::llama_context_params {
    let mut params = computation(config, shape.num_threads);
    params.n_ctx = shape.n_ctx() as u32;
    params.n_batch = config.batch_size;
    params.n_ubatch = config.ubatch_size.min(config.batch_size);
    params.n_seq_max = shape.num_slots as u32;
    params.n_outputs_max = shape.max_outputs(config.batch_size as usize) as u32;
    params.kv_unified = shape.layout == KvLayout::Unified;
    params
}

pub(super) fn embedding_params(config: &ContextConfig, shape: &EmbeddingShape) -> sys::llama_context_params {
    let mut params = computation(config, shape.num_threads);
    params.n_ctx = shape.num_cells.next_multiple_of(CELL_PADDING) as u32;
    params.n_batch = shape.max_rows as u32;
    params.n_ubatch = shape.max_rows as u32;
    params.n_seq_max = shape.max_sequences as u32;
    // Each row gives a vector, and llama.cpp pools them.
    params.n_outputs_max = shape.max_rows as u32;
    params.embeddings = true;
    params.pooling_type = match shape.kind.pooling {
        Pooling::Mean => sys::LLAMA_POOLING_TYPE_MEAN,
        Pooling::Cls => sys::LLAMA_POOLING_TYPE_CLS,
        Pooling::Last => sys::LLAMA_POOLING_TYPE_LAST,
        Pooling::Rank => sys::LLAMA_POOLING_TYPE_RANK,
    };
    params.attention_type = if shape.kind.is_causal {
        sys::LLAMA_ATTENTION_TYPE_CAUSAL
    } else {
        sys::LLAMA_ATTENTION_TYPE_NON_CAUSAL
    };
    params.kv_unified = true;
    params
}

/// How a context computes, whatever its size.
fn computation(config: &ContextConfig, num_threads: usize) -> sys::llama_context_params {
    // SAFETY: a plain constructor.
    let mut params = unsafe { sys::llama_context_default_params() };
    params.n_threads = num_threads as i32;
    params.n_threads_batch = num_threads as i32;
    params.flash_attn_type = match config.flash_attention {
        FlashAttention::Auto => sys::LLAMA_FLASH_ATTN_TYPE_AUTO,
        FlashAttention::Enabled => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
        FlashAttention::Disabled => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
    };
    params.type_k = ggml_type(config.kv_type_k);
    params.type_v = ggml_type(config.kv_type_v);
    params.offload_kqv = config.offload_kv;
    params.swa_full = config.swa_full;
    params.no_perf = true;
    set_rope(&mut params, config);
    params
}

/// Snapshots of the state that each sequence keeps, by which drafts can be rolled back: as many as a draft has
/// tokens, for models with a draft head whose state cannot be cut back.
pub(super) fn num_snapshots(weights: &Weights, config: &ContextConfig) -> usize {
    // llama.cpp asserts that a physical batch holds the tokens of all snapshots.
    let holds = config.ubatch_size.min(config.batch_size) as usize > MAX_DRAFT_TOKENS + 1;
    if weights.has_draft_head() && weights.is_recurrent() && holds { MAX_DRAFT_TOKENS } else { 0 }
}

fn set_rope(params: &mut sys::llama_context_params, config: &ContextConfig) {
    fn set<T: Copy>(target: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *target = value;
        }
    }
    let rope = &config.rope;
    let scaling = rope.scaling.map(|scaling| match scaling {
        RopeScaling::None => sys::LLAMA_ROPE_SCALING_TYPE_NONE,
        RopeScaling::Linear => sys::LLAMA_ROPE_SCALING_TYPE_LINEAR,
        RopeScaling::Yarn => sys::LLAMA_ROPE_SCALING_TYPE_YARN,
        RopeScaling::LongRope => sys::LLAMA_ROPE_SCALING_TYPE_LONGROPE,
    });
    set(&mut params.rope_scaling_type, scaling);
    set(&mut params.rope_freq_base, rope.freq_base);
    set(&mut params.rope_freq_scale, rope.freq_scale);
    set(&mut params.yarn_ext_factor, rope.yarn_ext_factor);
    set(&mut params.yarn_attn_factor, rope.yarn_attn_factor);
    set(&mut params.yarn_beta_fast, rope.yarn_beta_fast);
    set(&mut params.yarn_beta_slow, rope.yarn_beta_slow);
    set(&mut params.yarn_orig_ctx, rope.yarn_orig_ctx);
}

fn ggml_type(kv_type: KvType) -> sys::ggml_type {
    match kv_type {
        KvType::F32 => sys::GGML_TYPE_F32,
        KvType::F16 => sys::GGML_TYPE_F16,
        KvType::BF16 => sys::GGML_TYPE_BF16,
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
        KvType::Q5_1 => sys::GGML_TYPE_Q5_1,
        KvType::Q5_0 => sys::GGML_TYPE_Q5_0,
        KvType::Q4_1 => sys::GGML_TYPE_Q4_1,
        KvType::Q4_0 => sys::GGML_TYPE_Q4_0,
        KvType::IQ4_NL => sys::GGML_TYPE_IQ4_NL,
    }
}
