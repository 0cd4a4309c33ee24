//! Facts about a loaded model.

use std::collections::BTreeMap;

use super::ids::TokenId;

/// Facts about a loaded model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelInfo {
    /// One line, such as `llama 135M Q4_1`.
    pub description: String,
    /// GGUF architecture.
    pub architecture: String,
    /// Number of parameters.
    pub num_parameters: u64,
    /// Size of all tensors in bytes.
    pub size_bytes: u64,
    /// Context length that the model was trained with, in tokens.
    pub trained_context_length: u32,
    /// Maximum number of tokens in one sequence.
    pub context_length: u32,
    /// Total number of KV cells of all sequences.
    pub num_cells: u32,
    /// Bytes of KV cache per cell, at most: `None` if the cache does not grow by the token, or there is none.
    pub kv_bytes_per_token: Option<u64>,
    /// Maximum number of sequences in the context at once.
    pub num_slots: u32,
    /// Number of compute threads.
    pub num_threads: u32,
    /// What computes the layers: `CPU`, or the GPUs that layers are on.
    pub backend: String,
    /// Number of layers, without the output layer.
    pub num_layers: u32,
    /// Number of layers on GPUs, including the output layer.
    pub num_gpu_layers: u32,
    /// Number of tokens in the vocabulary.
    pub vocabulary_size: u32,
    /// Size of a hidden row, or of an embedding model's vectors.
    pub embedding_length: u32,
    /// How an embedding model pools its vectors: `mean`, `cls` or `last`; empty for other models.
    pub pooling: &'static str,
    /// GGUF metadata as text, without arrays.
    pub metadata: BTreeMap<String, String>,
    /// The default chat template.
    pub chat_template: Option<String>,
    /// Further chat templates by name.
    pub chat_templates: BTreeMap<String, String>,
    /// Beginning-of-sequence token.
    pub bos_token: Option<TokenId>,
    /// End-of-sequence token.
    pub eos_token: Option<TokenId>,
    /// Text of the BOS token, empty if there is none.
    pub bos_text: String,
    /// Text of the EOS token, empty if there is none.
    pub eos_text: String,
    /// Texts of the tokens that have a role, by Hugging Face's names (`bos_token`, `unk_token`, ...).
    pub special_tokens: BTreeMap<String, String>,
    /// Tokens that frame code to be filled in: `prefix`, `suffix`, `middle`, `repository` and `file`, as far as
    /// the vocabulary has them.
    pub infill_tokens: BTreeMap<String, u32>,
    /// Texts of the control tokens.
    pub control_tokens: Vec<String>,
    /// Texts of the tokens that end a generation.
    pub end_tokens: Vec<String>,
    /// Type of the K cache, by ggml's name.
    pub kv_type_k: &'static str,
    /// Type of the V cache, by ggml's name.
    pub kv_type_v: &'static str,
    /// `per_sequence` or `unified`.
    pub kv_layout: &'static str,
    /// Whether the model keeps a recurrent state (hybrids included), which cannot be cut back.
    pub is_recurrent: bool,
    /// Whether the model has a head of its own that drafts (multi-token prediction).
    pub has_draft_head: bool,
    /// Size of the attention window in tokens, or 0 if the model has none.
    pub sliding_window: u32,
    /// Identifies the weights, including adapters: 64 hexadecimal digits.
    pub fingerprint: String,
    /// Everything but the weights that a saved KV state depends on: it fits only engines with an equal text.
    pub state_layout: String,
}
