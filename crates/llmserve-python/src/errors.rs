//! The engine's errors as the exceptions of `llmserve.errors`.

use llmserve_engine::{Error, LoadError, LoadErrorReason};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

/// The exception for a refused or failed request.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("code", error.code())?;
    let class = match error {
        Error::InvalidParameter { field, limit, .. } => {
            fields.set_item("field", field)?;
            fields.set_item("limit", limit)?;
            "InvalidParameterError"
        }
        Error::InvalidConstraint { field, .. } => {
            fields.set_item("field", field)?;
            "InvalidParameterError"
        }
        Error::EmptyPrompt => "EmptyPromptError",
        Error::ContextExceeded { prompt_tokens, context_length }
        | Error::TextTooLong { fewest_tokens: prompt_tokens, context_length } => {
            fields.set_item("prompt_tokens", prompt_tokens)?;
            fields.set_item("context_length", context_length)?;
            fields.set_item("is_exact", matches!(error, Error::ContextExceeded { .. }))?;
            "ContextExceededError"
        }
        Error::InvalidInput { index, .. } => {
            fields.set_item("field", format!("input[{index}]"))?;
            "InvalidParameterError"
        }
        Error::InputTooLong { index, num_tokens, is_exact, limit } => {
            fields.set_item("prompt_tokens", num_tokens)?;
            fields.set_item("is_exact", is_exact)?;
            fields.set_item("context_length", limit)?;
            fields.set_item("index", index)?;
            "InputTooLongError"
        }
        Error::BudgetTooSmall { minimum, budget } => {
            fields.set_item("minimum", minimum)?;
            fields.set_item("budget", budget)?;
            "BudgetTooSmallError"
        }
        Error::QueueFull { retry_after, .. } => {
            fields.set_item("retry_after_s", retry_after.as_secs_f64())?;
            "QueueFullError"
        }
        Error::DecodeFailed { .. }
        | Error::InvalidLogits
        | Error::InvalidEmbedding
        | Error::ConstraintFailed { .. }
        | Error::Internal
        | Error::DraftContext { .. } => "GenerationError",
        Error::NoDraftHead => "NoDraftHeadError",
        Error::ShutDown => "EngineClosedError",
        Error::EngineDead { .. } => "EngineDeadError",
        Error::Tokenize { .. } => "TokenizeError",
        Error::Session(error) => {
            fields.set_item("reason", error.reason.code())?;
            fields.set_item("detail", &error.detail)?;
            "SessionError"
        }
    };
    let message = error.field_reason().unwrap_or_else(|| error.to_string().into());
    instance(py, class, &message, &fields)
}

/// The exception for a failed load.
pub(crate) fn load_exception(py: Python<'_>, error: &LoadError) -> PyErr {
    let build = || {
        let fields = PyDict::new(py);
        fields.set_item("reason", error.reason.code())?;
        fields.set_item("detail", &error.detail)?;
        fields.set_item("field", error.option.as_deref().unwrap_or_default())?;
        let class =
            if error.reason == LoadErrorReason::WrongKind { "WrongModelKindError" } else { "LoadError" };
        instance(py, class, &error.message, &fields)
    };
    build().unwrap_or_else(|failure| failure)
}

/// The exception for a field of a request that Python could not convert.
pub(crate) fn invalid_parameter(py: Python<'_>, field: &str, reason: &str) -> PyErr {
    let build = || {
        let fields = PyDict::new(py);
        fields.set_item("field", field)?;
        instance(py, "InvalidParameterError", reason, &fields)
    };
    build().unwrap_or_else(|failure| failure)
}

/// The exception for a load option that Python could not convert.
pub(crate) fn invalid_option(py: Python<'_>, field: &str, reason: &str) -> PyErr {
    load_exception(py, &LoadError::invalid_option(field, reason))
}

/// `llmserve.errors` is imported at the first error, not with this module: the probe process has
/// this module alone.
fn instance(py: Python<'_>, class: &str, message: &str, fields: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let errors = ERRORS.get_or_try_init(py, || PyModule::import(py, "llmserve.errors").map(Bound::unbind))?;
    let exception = errors.bind(py).getattr(class)?.call((message,), Some(fields))?;
    Ok(PyErr::from_value(exception))
}
