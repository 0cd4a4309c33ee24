//! The llmserve engine: loads GGUF models with llama.cpp, and generates text or computes embeddings
//! for many requests in one batch.
//!
//! [`load()`] opens a model off-thread, with progress. The resulting [`Engine`] is a handle to the
//! one thread that owns the model's context: [`Engine::submit`] never blocks, and every request
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
//! If a file's header describes an embedding model, the load gives an [`Embedder`] instead:
//! [`Embedder::embed`] turns texts into vectors. [`LoadOptions::wanted`] says which of the two is wanted.

mod command;
mod constraint;
mod core;
pub mod detokenizer;
mod draft;
mod embed;
mod engine;
mod fair_queue;
mod fingerprint;
pub mod gguf;
mod kv;
mod load;
mod memory;
pub mod model;
mod output;
mod prepare;
pub mod probe;
pub mod sampler;
mod scheduler;
mod sequence;
mod session;
mod types;
mod worker;

// Their short names inside the crate.
use prepare::tokenizer;
use types::{cached, config, error, event, ids, model_info, request, sampling, stats, tenant};
use worker::{job, lock, notify, outbox, process, queue, shared};

pub use draft::{Drafter, Head};
pub use embed::{
    Embedder, EmbedderParts, EmbeddingRequest, Embeddings, OpenEmbedding, RankingInput, RankingRequest,
};
pub use engine::{Engine, EngineParts, OpenContext, RequestHandle, Submission};
pub use gguf::{EmbeddingKind, ModelKind};
pub use load::{
    LoadEvent, LoadHandle, LoadOptions, Wanted, join_loads, kv_bytes_per_token, load, model_kind, probe_model,
};
pub use session::{NextTurn, Session, SessionInfo, SessionMode, SessionUse, inspect_session};
pub use types::*;
pub use worker::{Handle, Job, Listener, Notify, OwnedByProcess, Owner, PerProcess, Service};

/// The backends that this build computes with, and their devices. The first call loads them.
#[must_use]
pub fn backends() -> Vec<Backend> {
    model::llama::backends()
}
