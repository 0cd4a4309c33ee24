//! The engine through its public API: on the deterministic fake model, on tiny generated models, and on the default
//! model.
//!
//! One binary, since each is linked with llama.cpp and compiles what they share once more.
#![allow(unreachable_pub, missing_docs, reason = "these are tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails panics")]

mod cells;
mod common;
mod damaged_files;
mod drafting;
mod embedder;
mod embedding_models;
mod fake_engine;
mod layers;
mod model_files;
mod prepare;
mod probe_process;
mod real_drafting;
mod real_models;
mod session_files;
mod sessions;
mod support;

#[global_allocator]
static ALLOCATOR: support::allocation::Counting = support::allocation::Counting;
