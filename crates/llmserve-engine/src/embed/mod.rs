//! Embedding models turn texts into vectors, or rank documents by a query, with many inputs of many requests in one batch.
//!
//! An [`Embedder`] is to an embedding model what [`crate::Engine`] is to a generation model: the handle of
//! one thread that owns the model's context. Inputs are tokenized on threads of their own; the embed thread
//! takes them in turn from all requests and computes as many together as fit into a batch.

mod batch;
mod core;
mod embedder;
mod pair;
mod prepare;
mod request;

pub use embedder::{Embedder, EmbedderParts, OpenEmbedding};
pub use request::{EmbeddingRequest, Embeddings, RankingInput, RankingRequest};
