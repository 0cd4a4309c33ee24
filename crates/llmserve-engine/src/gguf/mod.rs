//! Reads GGUF headers.
//!
//! A file is read here first, with bounds: its header, its metadata, the layout of its tensors and
//! its parts. A refusal has a typed reason; a file that passes gives a [`ModelFile`], from which the
//! load takes what a model is for and what it costs. What llama.cpp itself checks is left to it, in
//! a process of its own (see [`crate::probe`]).
//!
//! The format is described in ggml's `docs/gguf.md`; limits beyond it are those of llama.cpp.

mod check;
mod draft_head;
mod header;
mod identity;
mod kind;
mod layout;
mod memory;
mod metadata;
mod reader;
mod rules;
mod split;
mod tensor_type;
mod values;

pub use check::{ModelFile, ModelPart, check, check_adapter};
pub use identity::FileIdentity;
pub use kind::{EmbeddingKind, ModelKind, Pooling};
pub use memory::bytes_per_token;
pub use metadata::{Array, Items, Metadata, Value, ValueType};
pub use tensor_type::TensorType;

use crate::error::{LoadError, LoadErrorReason};

/// A header contradicts itself, or would end the process.
fn damaged(message: impl Into<String>) -> LoadError {
    LoadError::new(LoadErrorReason::Damaged, message)
}

/// A file is complete, but of a kind that llama.cpp does not load.
fn unsupported(message: impl Into<String>) -> LoadError {
    LoadError::new(LoadErrorReason::Unsupported, message)
}

/// A name from the file, fit for a message: escaped and short.
fn quoted(name: &str) -> String {
    const LONGEST: usize = 80;
    let short: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let dots = if name.chars().nth(LONGEST).is_some() { "..." } else { "" };
    format!("`{short}{dots}`")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_escaped_and_cut() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted(&"x".repeat(81)), format!("`{}...`", "x".repeat(80)));
    }
}
