//! What several test files stand on.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may fail this way")]

pub mod allocation;
pub mod gguf_writer;
pub mod temp_dir;
