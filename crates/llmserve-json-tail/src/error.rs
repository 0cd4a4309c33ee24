//! Why a JSON schema is refused.

/// A keyword of the schema that is malformed, or that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{keyword}` at `{path}`: {reason}")]
pub struct SchemaError {
    /// The keyword at fault, or `schema` if a whole schema is.
    pub keyword: String,
    /// JSON pointer to the schema with the keyword; empty for the root.
    pub path: String,
    /// What is wrong, with the actual value and the limit, if there is one.
    pub reason: String,
}

impl SchemaError {
    pub(super) fn new(keyword: &str, path: &str, reason: impl Into<String>) -> Self {
        Self { keyword: keyword.to_owned(), path: path.to_owned(), reason: reason.into() }
    }
}
