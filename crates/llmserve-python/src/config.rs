//! Converts `ModelConfig` to the engine's configuration.

use llmserve_engine::{
    ContextConfig, FlashAttention, KvLayout, KvType, LoraAdapter, MetadataValue, ModelConfig, RopeConfig,
    RopeScaling, SchedulerConfig, WeightsConfig,
};
use pyo3::prelude::*;

use crate::errors::invalid_option;
use crate::fields::{Field, Fields};

const KV_LAYOUTS: &[(&str, KvLayout)] =
    &[("auto", KvLayout::Auto), ("per_sequence", KvLayout::PerSequence), ("unified", KvLayout::Unified)];

const KV_TYPES: &[(&str, KvType)] = &[
    ("f32", KvType::F32),
    ("f16", KvType::F16),
    ("bf16", KvType::BF16),
    ("q8_0", KvType::Q8_0),
    ("q5_1", KvType::Q5_1),
    ("q5_0", KvType::Q5_0),
    ("q4_1", KvType::Q4_1),
    ("q4_0", KvType::Q4_0),
    ("iq4_nl", KvType::IQ4_NL),
];

const ROPE_SCALINGS: &[(&str, RopeScaling)] = &[
    ("none", RopeScaling::None),
    ("linear", RopeScaling::Linear),
    ("yarn", RopeScaling::Yarn),
    ("longrope", RopeScaling::LongRope),
];

/// Reads a `llmserve.ModelConfig`. Values that do not fit raise `LoadError` (`invalid_option`).
pub(crate) fn model_config(config: &Bound<'_, PyAny>) -> PyResult<ModelConfig> {
    let fields = Fields::new(config, invalid_option);
    Ok(ModelConfig { weights: weights(&fields)?, context: context(&fields)?, scheduler: scheduler(&fields)? })
}

fn weights(fields: &Fields<'_>) -> PyResult<WeightsConfig> {
    let shares = fields.get("tensor_split")?.items()?;
    let overrides = fields.get("metadata_overrides")?.entries()?;
    let overrides = overrides.iter().map(|(key, value)| Ok((key.text()?, metadata_value(value)?)));
    Ok(WeightsConfig {
        use_mmap: fields.bool("use_mmap")?,
        use_mlock: fields.bool("use_mlock")?,
        gpu_layers: fields.optional_uint("gpu_layers")?,
        main_gpu: fields.uint("main_gpu")?,
        tensor_split: shares.iter().map(Field::float).collect::<PyResult<_>>()?,
        metadata_overrides: overrides.collect::<PyResult<_>>()?,
    })
}

/// Python's `True` is an `int` too, and a whole `float` is not: the order decides.
fn metadata_value(value: &Field<'_>) -> PyResult<MetadataValue> {
    if value.is_bool() {
        return value.bool().map(MetadataValue::Bool);
    }
    if let Ok(text) = value.text() {
        return Ok(MetadataValue::Str(text));
    }
    if let Ok(integer) = value.int() {
        return Ok(MetadataValue::Int(integer));
    }
    let float = value.float64().map_err(|_| value.refused("an int of 64 bits, a float, a bool or a str"))?;
    Ok(MetadataValue::Float(float))
}

fn context(fields: &Fields<'_>) -> PyResult<ContextConfig> {
    let adapters = fields.get("lora")?.items()?;
    let flash_attention = match fields.get("flash_attention")?.optional() {
        None => FlashAttention::Auto,
        Some(field) if field.bool()? => FlashAttention::Enabled,
        Some(_) => FlashAttention::Disabled,
    };
    Ok(ContextConfig {
        context_length: fields.optional_uint("context_length")?,
        max_sequences: fields.optional_uint("max_sequences")?,
        kv_cells: fields.optional_uint("kv_cells")?,
        kv_layout: fields.choice("kv_layout", KV_LAYOUTS)?,
        batch_size: fields.uint("batch_size")?,
        ubatch_size: fields.uint("ubatch_size")?,
        threads: fields.optional_uint("threads")?,
        kv_type_k: fields.choice("kv_type_k", KV_TYPES)?,
        kv_type_v: fields.choice("kv_type_v", KV_TYPES)?,
        flash_attention,
        offload_kv: fields.bool("offload_kv")?,
        swa_full: fields.bool("swa_full")?,
        deterministic: fields.bool("deterministic")?,
        rope: rope(fields)?,
        lora: adapters.iter().map(lora_adapter).collect::<PyResult<_>>()?,
    })
}

fn rope(fields: &Fields<'_>) -> PyResult<RopeConfig> {
    let scaling = fields.get("rope_scaling")?.optional();
    Ok(RopeConfig {
        scaling: scaling.map(|field| field.choice(ROPE_SCALINGS)).transpose()?,
        freq_base: fields.optional_float("rope_freq_base")?,
        freq_scale: fields.optional_float("rope_freq_scale")?,
        yarn_ext_factor: fields.optional_float("yarn_ext_factor")?,
        yarn_attn_factor: fields.optional_float("yarn_attn_factor")?,
        yarn_beta_fast: fields.optional_float("yarn_beta_fast")?,
        yarn_beta_slow: fields.optional_float("yarn_beta_slow")?,
        yarn_orig_ctx: fields.optional_uint("yarn_orig_ctx")?,
    })
}

fn lora_adapter(adapter: &Field<'_>) -> PyResult<LoraAdapter> {
    Ok(LoraAdapter { path: adapter.attribute("path")?.path()?, scale: adapter.attribute("scale")?.float()? })
}

fn scheduler(fields: &Fields<'_>) -> PyResult<SchedulerConfig> {
    Ok(SchedulerConfig {
        max_queued_requests: fields.uint("max_queued_requests")?,
        max_queued_tokens: fields.uint("max_queued_tokens")?,
        max_stall_ms: fields.uint("max_stall_ms")?,
        idle_step_ms: fields.uint("idle_step_ms")?,
        prefix_cache: fields.bool("prefix_cache")?,
        parking_bytes: fields.uint("parking_bytes")?,
    })
}
