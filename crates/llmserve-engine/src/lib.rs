//! The llmserve engine: loads GGUF models with llama.cpp, and generates text or computes embeddings
//! for many requests in one batch.
//!
//! [`load()`] opens a model off-thread, with progress. The [`Engine`] that it gives is a handle on
//! one thread, which owns the model's context: [`Engine::submit`] never blocks, and every request
//! has its own outbox ([`RequestHandle`]) with exactly one terminal event.
//!
//! ```no_run
//! use llmserve_engine::{Event, GenerationRequest, LoadEvent, LoadOptions, ModelConfig, RequestParts, load};
//!
//! let loading = load("model.gguf".as_ref(), ModelConfig::default(), LoadOptions::default(), None);
//! let engine = loop {
//!     match loading.recv() {
//!         Some(LoadEvent::Ready(engine)) => break engine,
//!         Some(LoadEvent::Progress(share)) => println!("{:.0} %", share * 100.0),
//!         Some(LoadEvent::ReadyEmbedder(_)) => return println!("the model gives embeddings"),
//!         Some(LoadEvent::Failed(error)) => return println!("{error}"),
//!         None => return,
//!     }
//! };
//! if let Ok(request) = GenerationRequest::new(RequestParts::text("Once upon a time", 64)) {
//!     let handle = engine.submit(request, None);
//!     while let Some(event) = handle.recv() {
//!         if let Event::Delta(delta) = event {
//!             print!("{}", delta.text());
//!         }
//!     }
//! }
//! ```
//!
//! A file of an embedding model gives an [`Embedder`] instead, by its header: [`Embedder::embed`] turns
//! texts into vectors. [`LoadOptions::wanted`] says which of both is wanted.

pub mod config;
mod constrained;
mod constraint;
mod core;
pub mod detokenizer;
pub mod draft;
mod embed;
mod engine;
pub mod error;
pub mod event;
mod fingerprint;
pub mod gguf;
pub mod ids;
mod job;
mod jobs;
mod kv;
mod load;
mod lock;
mod marked;
pub mod memory;
pub mod model;
pub mod notify;
mod outbox;
mod prepare;
pub mod probe;
mod process;
mod queue;
pub mod request;
pub mod sampler;
mod scheduler;
mod sequence;
pub mod session;
mod shared;
pub mod stats;
mod tokenizer;

pub use config::*;
pub use constraint::Mask;
pub use draft::{DraftMethod, Drafter, Drafting, Head, MAX_DRAFT_TOKENS};
pub use embed::{Embedder, EmbedderParts, EmbeddingRequest, Embeddings, OpenEmbedding};
pub use engine::{Engine, EngineParts, OpenContext};
pub use error::*;
pub use event::*;
pub use gguf::ModelKind;
pub use ids::*;
pub use job::Job;
pub use load::{LoadEvent, LoadHandle, LoadOptions, Wanted, join_loads, load, model_kind, probe_model};
pub use model::ModelInfo;
pub use notify::{Listener, Notify};
pub use outbox::RequestHandle;
pub use request::*;
pub use session::{
    NextTurn, Session, SessionError, SessionErrorReason, SessionInfo, SessionMode, SessionUse,
    inspect_session,
};
pub use stats::*;
