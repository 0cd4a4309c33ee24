//! `llmserve._core`: conversions between Python and the engine crate, and the wake-ups of event
//! loops. It adds to the engine which Python object keeps a model open, and what must end before the
//! interpreter does. The classes that programs use are in the Python package.

mod built_for;
mod config;
mod drafting;
mod embedder;
mod engine;
mod errors;
mod events;
mod exit;
mod fields;
mod held;
mod info;
mod jobs;
mod load;
mod logging;
mod registry;
mod request;
mod sampling;
mod session;
mod tenant;
mod tokens;
mod wakeup;

/// The native part of llmserve. Private: use the classes of the package `llmserve`.
#[pyo3::pymodule(gil_used = false, name = "_unchecked_core")]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::drafting::{HeadJob, PyHead};
    #[pymodule_export]
    use crate::embedder::{EmbedJob, InputBuffer, PairBuffer, PyEmbedder, json_vectors};
    #[pymodule_export]
    use crate::engine::{PyEngine, Request};
    #[pymodule_export]
    use crate::exit::begin_exit;
    #[pymodule_export]
    use crate::info::backends;
    #[pymodule_export]
    use crate::load::{Load, kv_bytes_per_token, load, model_kind, probe};
    #[pymodule_export]
    use crate::logging::{set_log_level, take_log_records};
    #[pymodule_export]
    use crate::request::check_params;
    #[pymodule_export]
    use crate::session::{PySession, SessionJob, inspect_session};
    #[pymodule_export]
    use crate::tokens::{CachedTokensJob, DetokenizeJob, TokenBuffer, TokenizeJob};
    #[pymodule_export]
    use crate::wakeup::{PyListener, Wakeup};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::logging::install();
        module.add("MAX_DRAFT_TOKENS", llmserve_engine::MAX_DRAFT_TOKENS)?;
        module.add("MAX_PROMPT_LOGPROBS", llmserve_engine::MAX_PROMPT_LOGPROBS)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
