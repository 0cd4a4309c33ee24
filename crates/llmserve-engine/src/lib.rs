//! The llmserve engine: loads GGUF models with llama.cpp and generates for many requests at once.

pub mod config;
pub mod detokenizer;
pub mod error;
pub mod event;
pub mod ids;
pub mod request;
pub mod sampler;
pub mod stats;

pub use config::*;
pub use error::*;
pub use event::*;
pub use ids::*;
pub use request::*;
pub use stats::*;
