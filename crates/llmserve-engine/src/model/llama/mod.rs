//! The model module's llama.cpp side: the only code that names its types or calls it.
//!
//! Backend and cargo features come from `llama-cpp-2`; weights, context, batch, memory and state
//! are a small safe layer on `llama-cpp-sys-2`, since `llama-cpp-2` keeps its pointers to itself.
#![expect(unsafe_code, reason = "the one module that calls C and C++")]

mod adapters;
mod backend;
mod backends;
mod backlog;
mod context;
mod devices;
mod draft_context;
mod embedding;
mod head_context;
mod kept_logits;
mod limits;
mod log_sink;
#[cfg_attr(not(target_os = "linux"), path = "no_pages.rs")]
mod pages;
mod params;
mod pieces;
mod raw_context;
mod rollback;
mod shim;
mod slot_state;
mod state_cells;
#[cfg(all(test, own_threads))]
mod threads;
mod tiles;
mod vocabulary;
mod weights;

pub(crate) use backends::backends;
pub(crate) use context::LlamaContext;
pub(crate) use devices::{gpus, num_gpu_layers, unmet};
pub(crate) use embedding::LlamaEmbedding;
pub(crate) use log_sink::with_log;
pub(crate) use params::{ContextShape, EmbeddingShape};
pub(crate) use vocabulary::LlamaVocabulary;
pub(crate) use weights::Weights;

/// Names the format of saved states, which may change with llama.cpp: the version of its sys crate.
pub(crate) const STATE_FORMAT: &str = "llama.cpp 0.1.161";

#[cfg(test)]
mod tests {
    #[test]
    fn the_state_format_is_that_of_the_version_in_use() {
        let manifest = include_str!("../../../../../Cargo.toml");
        let version = super::STATE_FORMAT.trim_start_matches("llama.cpp ");
        assert!(manifest.contains(&format!("llama-cpp-sys-2 = {{ version = \"={version}\"")));
    }
}
