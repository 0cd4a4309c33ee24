//! Why a JSON schema is refused.

/// A keyword of the schema that is malformed, or that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{keyword}` at `{path}`: {reason}")]
pub struct SchemaError {
    /// The keyword at fault, `schema` where a schema as a whole is.
    pub keyword: String,
    /// JSON pointer to the schema that holds the keyword; empty for the root.
    pub path: String,
    /// What is wrong, with the value met and the limit where there is one.
    pub reason: String,
}

impl SchemaError {
    pub(super) fn new(keyword: &str, path: &str, reason: impl Into<String>) -> Self {
        Self { keyword: keyword.to_owned(), path: path.to_owned(), reason: reason.into() }
    }
}
