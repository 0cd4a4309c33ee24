//! The model module's llama.cpp side: the only code that names its types or calls it.
//!
//! Backend and cargo features come from `llama-cpp-2`; weights, context, batch, memory and state
//! are a small safe layer on `llama-cpp-sys-2`, since `llama-cpp-2` keeps its pointers to itself.
#![expect(unsafe_code, reason = "the one module that calls C and C++")]

mod backend;
mod context;
mod log_sink;
mod params;
mod shim;
mod vocabulary;
mod weights;

pub(crate) use context::LlamaContext;
pub(crate) use log_sink::LogCapture;
pub(crate) use params::ContextShape;
pub(crate) use vocabulary::LlamaVocabulary;
pub(crate) use weights::Weights;
