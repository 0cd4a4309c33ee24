//! What several test files stand on.

pub mod allocation;
pub mod gguf_writer;
pub mod temp_dir;
