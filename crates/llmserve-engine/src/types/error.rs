//! Every way in which the engine can refuse or fail, as data.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::session_error::SessionError;

/// A refused or failed request.
///
/// Messages give the limit and the actual value. They never contain a path or one of llama.cpp's
/// log lines, so a server may show them to its clients.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A field of the request is out of range or contradicts another.
    #[error("{field}: {reason}")]
    InvalidParameter {
        /// The field, as [`crate::GenerationRequest`] and its parts name it.
        field: &'static str,
        /// What is wrong with it, with the limit and the value.
        reason: String,
        /// The bound that the value is beyond, if it is beyond one.
        limit: Option<f64>,
    },
    /// The prompt has no tokens.
    #[error("prompt: must have at least one token")]
    EmptyPrompt,
    /// The prompt leaves no room for output in the context length.
    #[error(
        "prompt: {prompt_tokens} tokens leave no room for output in the context length of {context_length} tokens"
    )]
    ContextExceeded {
        /// Number of prompt tokens.
        prompt_tokens: usize,
        /// The most tokens that one sequence may hold.
        context_length: usize,
    },
    /// The prompt is too long to fit, and was therefore not tokenized.
    #[error("prompt: at least {fewest_tokens} tokens exceed the context length of {context_length} tokens")]
    TextTooLong {
        /// The fewest tokens that a text of this length can have.
        fewest_tokens: usize,
        /// The most tokens that one sequence may hold.
        context_length: usize,
    },
    /// An input of an embedding request cannot be computed.
    #[error("input[{index}]: {reason}")]
    InvalidInput {
        /// The position of the input, from 0.
        index: usize,
        /// What is wrong with it, with the limit and the value.
        reason: String,
    },
    /// An input of an embedding request is too long.
    #[error("input[{index}]: {}{num_tokens} tokens exceed the context length of {limit} tokens",
        if *.is_exact { "" } else { "at least " })]
    InputTooLong {
        /// The position of the input, from 0.
        index: usize,
        /// The number of its tokens, or a lower bound of it.
        num_tokens: usize,
        /// Whether the tokens were counted. A text that is far too long is not tokenized.
        is_exact: bool,
        /// Maximum number of tokens in one input.
        limit: usize,
    },
    /// A constraint cannot be compiled.
    #[error("{field}: {reason}")]
    InvalidConstraint {
        /// The field: `json_schema`, `regex` or `grammar`.
        field: &'static str,
        /// What is wrong with it; for a schema, with keyword and JSON pointer.
        reason: String,
    },
    /// The token limit is too small for even the shortest document that the constraint allows.
    #[error("max_tokens: {}", too_few(*.minimum, *.budget))]
    BudgetTooSmall {
        /// Number of tokens in the shortest document that was found.
        minimum: usize,
        /// How many tokens may be generated: the request's limit, or what the context leaves.
        budget: usize,
    },
    /// The constraint broke while the text was generated.
    #[error("the constraint failed: {reason}")]
    ConstraintFailed {
        /// How the constraint broke.
        reason: &'static str,
    },
    /// The waiting queue has no room.
    #[error("the queue is full: {limit} {unit} are waiting")]
    QueueFull {
        /// The limit that was reached.
        limit: usize,
        /// What the limit counts: `requests` or `tokens`.
        unit: &'static str,
        /// When another try is likely to succeed.
        retry_after: Duration,
    },
    /// llama.cpp could not compute a step that this request was part of.
    #[error("the model failed to compute a step (code {code})")]
    DecodeFailed {
        /// llama.cpp's return code.
        code: i32,
    },
    /// The model's output for this request contains no usable number.
    #[error("the model produced no finite logits")]
    InvalidLogits,
    /// Drafting with the model's own head was requested, but the model has none.
    #[error("the model has no head for multi-token prediction (MTP) that can draft")]
    NoDraftHead,
    /// The draft context could not be created.
    #[error("the draft context could not be created: {reason}")]
    DraftContext {
        /// Why.
        reason: &'static str,
    },
    /// The model's vector for an input contains a value that is not a number.
    #[error("the model produced no finite embedding")]
    InvalidEmbedding,
    /// The engine was shut down while the request was waiting or running.
    #[error("the engine was shut down")]
    ShutDown,
    /// The engine's thread crashed, or this process was forked from the engine's process.
    #[error("the engine is dead: {reason}")]
    EngineDead {
        /// Why.
        reason: &'static str,
    },
    /// A fault in the engine while it worked on this request alone.
    #[error("the request failed because of a fault inside the engine")]
    Internal,
    /// Text cannot be converted into tokens of the vocabulary, or tokens into text.
    #[error("{reason}")]
    Tokenize {
        /// What is wrong, with the offending value.
        reason: String,
    },
    /// A session file could not be written or read.
    #[error(transparent)]
    Session(#[from] SessionError),
}

fn too_few(minimum: usize, budget: usize) -> String {
    format!("the shortest document takes {minimum} tokens, but only {budget} may be generated")
}

impl Error {
    /// A field that is wrong, but beyond no bound.
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidParameter { field, reason: reason.into(), limit: None }
    }

    /// A field with a value beyond its bound.
    pub(crate) fn beyond(field: &'static str, limit: f64, reason: impl Into<String>) -> Self {
        Self::InvalidParameter { field, reason: reason.into(), limit: Some(limit) }
    }

    /// What is wrong with the field, for errors that name one: the message without the field's name.
    #[must_use]
    pub fn field_reason(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::InvalidParameter { reason, .. }
            | Self::InvalidInput { reason, .. }
            | Self::InvalidConstraint { reason, .. } => Some(Cow::Borrowed(reason)),
            Self::BudgetTooSmall { minimum, budget } => Some(Cow::Owned(too_few(*minimum, *budget))),
            Self::EmptyPrompt
            | Self::ContextExceeded { .. }
            | Self::TextTooLong { .. }
            | Self::InputTooLong { .. }
            | Self::ConstraintFailed { .. }
            | Self::QueueFull { .. }
            | Self::DecodeFailed { .. }
            | Self::InvalidLogits
            | Self::NoDraftHead
            | Self::DraftContext { .. }
            | Self::InvalidEmbedding
            | Self::ShutDown
            | Self::EngineDead { .. }
            | Self::Internal
            | Self::Tokenize { .. }
            | Self::Session(_) => None,
        }
    }

    /// A stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidParameter { .. } => "invalid_parameter",
            Self::EmptyPrompt => "empty_prompt",
            Self::ContextExceeded { .. } | Self::TextTooLong { .. } | Self::InputTooLong { .. } => {
                "context_exceeded"
            }
            Self::InvalidInput { .. } => "invalid_input",
            Self::InvalidEmbedding => "invalid_embedding",
            Self::InvalidConstraint { .. } => "invalid_constraint",
            Self::BudgetTooSmall { .. } => "budget_too_small",
            Self::ConstraintFailed { .. } => "constraint_failed",
            Self::QueueFull { .. } => "queue_full",
            Self::DecodeFailed { .. } => "decode_failed",
            Self::InvalidLogits => "invalid_logits",
            Self::NoDraftHead => "no_draft_head",
            Self::DraftContext { .. } => "draft_context_failed",
            Self::ShutDown => "shut_down",
            Self::EngineDead { .. } => "engine_dead",
            Self::Internal => "internal_error",
            Self::Tokenize { .. } => "tokenize_failed",
            Self::Session(_) => "session_failed",
        }
    }
}

/// Why a model could not be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoadErrorReason {
    /// There is no such file.
    NotFound,
    /// The file exists, but cannot be read or is not a regular file.
    NotReadable,
    /// The file is not a GGUF file.
    NotGguf,
    /// The file has a GGUF version that llama.cpp does not support.
    UnsupportedVersion,
    /// The file ends before the data that its header announces.
    Truncated,
    /// The file contradicts itself: llama.cpp refuses it, or would end the process.
    Damaged,
    /// A part of a split model is missing.
    MissingPart,
    /// A part of a split model does not belong to it, or loading did not start at the first part.
    WrongPart,
    /// llama.cpp does not know the model's architecture, tokenizer or a tensor type.
    Unsupported,
    /// The model cannot do what its caller needs.
    WrongKind,
    /// Neither weights nor KV cache fit into memory.
    NotEnoughMemory,
    /// A load option is out of range or does not suit the model.
    InvalidOption,
    /// The load was cancelled by its caller.
    Cancelled,
    /// The probe process could not be started, was killed or took too long: nothing is known about the file.
    ProbeFailed,
    /// llama.cpp refused for another reason, which is in the detail.
    Other,
}

impl LoadErrorReason {
    /// A stable code for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NotReadable => "not_readable",
            Self::NotGguf => "not_gguf",
            Self::UnsupportedVersion => "unsupported_version",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
            Self::MissingPart => "missing_part",
            Self::WrongPart => "wrong_part",
            Self::Unsupported => "unsupported",
            Self::WrongKind => "wrong_kind",
            Self::NotEnoughMemory => "not_enough_memory",
            Self::InvalidOption => "invalid_option",
            Self::Cancelled => "cancelled",
            Self::ProbeFailed => "probe_failed",
            Self::Other => "load_failed",
        }
    }

    /// The reason with this code: the inverse of [`LoadErrorReason::code`].
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        const ALL: [LoadErrorReason; 15] = [
            LoadErrorReason::NotFound,
            LoadErrorReason::NotReadable,
            LoadErrorReason::NotGguf,
            LoadErrorReason::UnsupportedVersion,
            LoadErrorReason::Truncated,
            LoadErrorReason::Damaged,
            LoadErrorReason::MissingPart,
            LoadErrorReason::WrongPart,
            LoadErrorReason::Unsupported,
            LoadErrorReason::WrongKind,
            LoadErrorReason::NotEnoughMemory,
            LoadErrorReason::InvalidOption,
            LoadErrorReason::Cancelled,
            LoadErrorReason::ProbeFailed,
            LoadErrorReason::Other,
        ];
        ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// A load failed. Nothing of it remains in memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct LoadError {
    /// The kind of failure.
    pub reason: LoadErrorReason,
    /// The load option that is wrong, if a single one is: a field of [`crate::ModelConfig`] or of its parts.
    pub option: Option<String>,
    /// One sentence for the user, without paths and without the option's name.
    pub message: String,
    /// llama.cpp's own log lines of this load, or further facts. For logs, not for clients.
    pub detail: String,
}

impl LoadError {
    /// A failure without details.
    pub fn new(reason: LoadErrorReason, message: impl Into<String>) -> Self {
        Self { reason, option: None, message: message.into(), detail: String::new() }
    }

    /// A load option that is out of range or does not suit the model.
    pub fn invalid_option(option: &str, message: impl Into<String>) -> Self {
        Self { option: Some(option.to_owned()), ..Self::new(LoadErrorReason::InvalidOption, message) }
    }

    /// Adds details that are for the log only.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

impl fmt::Display for LoadError {
    /// The option's name, if there is one, and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(option) = &self.option {
            write!(f, "{option}: ")?;
        }
        f.write_str(&self.message)
    }
}
