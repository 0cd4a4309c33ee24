//! Why a session file could not be written or read.

/// The kind of failure of a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionErrorReason {
    /// There is no such file.
    NotFound,
    /// The file exists, but cannot be read or is not a regular file.
    NotReadable,
    /// The file is not a session.
    NotASession,
    /// The session has a format version that is not supported.
    WrongVersion,
    /// The file is cut off, longer than it says, or was changed after it was written.
    Damaged,
    /// The session belongs to other weights.
    OtherModel,
    /// The session has more tokens than a sequence may have.
    TooLong,
    /// The file cannot be written.
    NotWritable,
    /// The path names a file that is not a session; it is not replaced.
    NotReplaceable,
}

impl SessionErrorReason {
    /// A stable code for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NotReadable => "not_readable",
            Self::NotASession => "not_a_session",
            Self::WrongVersion => "wrong_version",
            Self::Damaged => "damaged",
            Self::OtherModel => "other_model",
            Self::TooLong => "too_long",
            Self::NotWritable => "not_writable",
            Self::NotReplaceable => "not_replaceable",
        }
    }
}

/// A session file that could not be written or read. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SessionError {
    /// The kind of failure.
    pub reason: SessionErrorReason,
    /// One sentence for the user, without paths.
    pub message: String,
    /// The path and the system's own words. For logs, not for clients.
    pub detail: String,
}

impl SessionError {
    /// A failure without details.
    pub fn new(reason: SessionErrorReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), detail: String::new() }
    }

    /// Adds details that are for the log only.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}
