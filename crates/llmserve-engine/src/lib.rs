//! The llmserve engine: loads GGUF models with llama.cpp and generates for many requests at once.

pub mod config;
pub mod error;
pub mod event;
pub mod gguf;
pub mod ids;
pub mod memory;
pub mod probe;
pub mod request;
pub mod stats;

pub use config::*;
pub use error::*;
pub use event::*;
pub use ids::*;
pub use request::*;
pub use stats::*;
