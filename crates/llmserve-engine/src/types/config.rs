//! How a model is loaded and run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// Everything that is chosen when a model is loaded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfig {
    /// Options of the weights: engines that differ here cannot share them.
    pub weights: WeightsConfig,
    /// Options of the context: the KV cache and the computation.
    pub context: ContextConfig,
    /// Limits of the queue and the step.
    pub scheduler: SchedulerConfig,
}

/// How the weights are loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightsConfig {
    /// Map the model file into memory instead of reading it.
    pub use_mmap: bool,
    /// Lock the weights in memory, so that they are not swapped out.
    pub use_mlock: bool,
    /// Layers to offload to the GPU; `None` leaves it to llama.cpp (all, if there is a GPU).
    pub gpu_layers: Option<u32>,
    /// Index of the GPU that holds everything that is not split.
    pub main_gpu: u32,
    /// Proportion of the model on each GPU; empty leaves it to llama.cpp.
    pub tensor_split: Vec<f32>,
    /// Metadata values that override those in the file.
    pub metadata_overrides: Vec<(String, MetadataValue)>,
}

impl Default for WeightsConfig {
    fn default() -> Self {
        Self {
            use_mmap: true,
            use_mlock: false,
            gpu_layers: None,
            main_gpu: 0,
            tensor_split: Vec::new(),
            metadata_overrides: Vec::new(),
        }
    }
}

/// A value for [`WeightsConfig::metadata_overrides`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MetadataValue {
    /// An integer of any width.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text of at most 127 bytes.
    Str(String),
}

/// Options of the context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextConfig {
    /// Maximum number of tokens in one sequence. `None`: the trained length, or less if half of the
    /// free memory cannot hold one such sequence.
    pub context_length: Option<u32>,
    /// Maximum number of sequences in the context at the same time (1 to 256). `None`: four per thread
    /// (4 to 16), or 16 with a GPU; fewer with [`KvLayout::PerSequence`] if half of the free memory
    /// cannot hold as many at full length, and never more than `batch_size`. An embedding model takes
    /// this many inputs at a time: 64 by default, and never more than `ubatch_size` or `batch_size`.
    pub max_sequences: Option<u32>,
    /// KV cells of all sequences together, for [`KvLayout::Unified`]. `None`: as many as fit into
    /// half of the free memory, at most sequences x context length.
    pub kv_cells: Option<u32>,
    /// One pool of cells, or one per sequence.
    pub kv_layout: KvLayout,
    /// Maximum number of rows in one step.
    pub batch_size: u32,
    /// Maximum number of rows that are computed together (llama.cpp's physical batch).
    pub ubatch_size: u32,
    /// Compute threads; `None`: the cores that this process may use (affinity and cgroup quota). Tokens are drawn
    /// on as many, at most eight.
    pub threads: Option<u32>,
    /// Type of the K cache.
    pub kv_type_k: KvType,
    /// Type of the V cache.
    pub kv_type_v: KvType,
    /// Flash attention.
    pub flash_attention: FlashAttention,
    /// Keep the KV cache on the GPU.
    pub offload_kv: bool,
    /// Keep all cells of sliding-window layers, which makes prefix reuse possible there.
    pub swa_full: bool,
    /// Compute each sequence by itself, so that no other request changes its log-probabilities in the last bits. Slow
    /// with several sequences. Needs [`KvLayout::PerSequence`], which [`KvLayout::Auto`] then selects; nothing is drafted.
    pub deterministic: bool,
    /// Scaling of the rotary position embedding.
    pub rope: RopeConfig,
    /// Adapters, applied to every request.
    pub lora: Vec<LoraAdapter>,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            context_length: None,
            max_sequences: None,
            kv_cells: None,
            kv_layout: KvLayout::default(),
            batch_size: 512,
            ubatch_size: 512,
            threads: None,
            kv_type_k: KvType::F16,
            kv_type_v: KvType::F16,
            flash_attention: FlashAttention::Auto,
            offload_kv: true,
            swa_full: false,
            deterministic: false,
            rope: RopeConfig::default(),
            lora: Vec::new(),
        }
    }
}

/// How KV cells are shared out among sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvLayout {
    /// Per sequence if half of the free memory can hold all sequences at full length, else unified.
    #[default]
    Auto,
    /// Each sequence has its own cells (as many as the context length). A row then scans only its
    /// own sequence's cells, which was 15 to 30 % faster from eight sequences on.
    PerSequence,
    /// All sequences share one pool: fewer cells serve more sequences, and rows scan them all.
    Unified,
}

impl KvLayout {
    /// The name in the Python API and in the settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::PerSequence => "per_sequence",
            Self::Unified => "unified",
        }
    }
}

/// Type of the values in a KV cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, non_camel_case_types, reason = "the names are ggml's")]
pub enum KvType {
    F32,
    #[default]
    F16,
    BF16,
    Q8_0,
    Q5_1,
    Q5_0,
    Q4_1,
    Q4_0,
    IQ4_NL,
}

impl KvType {
    /// ggml's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q5_1 => "q5_1",
            Self::Q5_0 => "q5_0",
            Self::Q4_1 => "q4_1",
            Self::Q4_0 => "q4_0",
            Self::IQ4_NL => "iq4_nl",
        }
    }
}

/// Whether attention runs as one fused kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlashAttention {
    /// llama.cpp decides by model and backend.
    #[default]
    Auto,
    /// On; needed for a quantized V cache.
    Enabled,
    /// Off.
    Disabled,
}

/// Scaling of the rotary position embedding; every `None` takes the model's own value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RopeConfig {
    /// Kind of scaling.
    pub scaling: Option<RopeScaling>,
    /// Base frequency.
    pub freq_base: Option<f32>,
    /// Frequency scaling factor.
    pub freq_scale: Option<f32>,
    /// `YaRN` extrapolation mix factor.
    pub yarn_ext_factor: Option<f32>,
    /// `YaRN` magnitude scaling factor.
    pub yarn_attn_factor: Option<f32>,
    /// `YaRN` low correction dimension.
    pub yarn_beta_fast: Option<f32>,
    /// `YaRN` high correction dimension.
    pub yarn_beta_slow: Option<f32>,
    /// Context length that the model was trained with before `YaRN`.
    pub yarn_orig_ctx: Option<u32>,
}

/// Kind of scaling of the rotary position embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are llama.cpp's")]
pub enum RopeScaling {
    None,
    Linear,
    Yarn,
    LongRope,
}

/// A low-rank adapter file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoraAdapter {
    /// The GGUF file of the adapter.
    pub path: PathBuf,
    /// The adapter's weight.
    pub scale: f32,
}

/// Limits of the queue, the step and the caches.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConfig {
    /// Maximum number of waiting requests; further ones are refused.
    pub max_queued_requests: usize,
    /// Maximum number of waiting prompt tokens; a request that would exceed it is refused, unless it
    /// is alone in the queue.
    pub max_queued_tokens: usize,
    /// How long running streams may stand still while prompts are computed, in milliseconds. People notice gaps of
    /// more than 100 to 200 ms.
    pub max_stall_ms: u32,
    /// How long a step that only prefills may take, in milliseconds.
    pub idle_step_ms: u32,
    /// Keep the cells of finished sequences for later requests with the same prefix.
    pub prefix_cache: bool,
    /// Host memory for the state of preempted and cached sequences, in bytes.
    pub parking_bytes: usize,
}

impl SchedulerConfig {
    /// Refuses options that no engine could run with.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let counts = [
            ("max_queued_requests", self.max_queued_requests),
            ("max_queued_tokens", self.max_queued_tokens),
            ("max_stall_ms", self.max_stall_ms as usize),
            ("idle_step_ms", self.idle_step_ms as usize),
        ];
        if let Some((field, _)) = counts.iter().find(|(_, value)| *value == 0) {
            return Err(LoadError::invalid_option(field, "must be at least 1, got 0"));
        }
        Ok(())
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            max_queued_requests: 128,
            max_queued_tokens: 1 << 20,
            max_stall_ms: 150,
            idle_step_ms: 500,
            prefix_cache: true,
            parking_bytes: 512 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_options_are_checked_like_the_others() {
        assert!(SchedulerConfig::default().check().is_ok());
        let config = SchedulerConfig { idle_step_ms: 0, ..SchedulerConfig::default() };
        assert_eq!(config.check().unwrap_err().to_string(), "idle_step_ms: must be at least 1, got 0");
    }
}
