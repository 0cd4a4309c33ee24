//! Loads as Python objects.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use llmserve_engine::{LoadEvent, LoadHandle, LoadOptions, ModelKind, OwnedByProcess, Wanted};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::config::model_config;
use crate::embedder::PyEmbedder;
use crate::engine::PyEngine;
use crate::errors::{exception, invalid_option, load_exception};
use crate::fields::Field;
use crate::wakeup::PyListener;
use crate::{exit, registry};

const WANTED: &[(&str, Wanted)] =
    &[("any", Wanted::Any), ("generation", Wanted::Generation), ("embedding", Wanted::Embedding)];

/// Begins to load a model. `probe_command` is the program that opens the file in a process of its
/// own first; path and options are appended. `wanted` is what the model is for: `any`, `generation` or
/// `embedding`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's path objects convert to an owned path")]
pub(crate) fn load(
    path: PathBuf,
    config: &Bound<'_, PyAny>,
    probe_command: Option<Vec<OsString>>,
    listener: &PyListener,
    wanted: &Bound<'_, PyAny>,
) -> PyResult<Load> {
    let wanted = Field::new("wanted", wanted.clone(), invalid_option).choice(WANTED)?;
    let options = LoadOptions { probe_command, wanted };
    let handle = llmserve_engine::load(&path, model_config(config)?, options, Some(listener.0.clone()));
    let handle = Arc::new(handle);
    registry::track_load(&handle);
    Ok(Load(OwnedByProcess::new(handle)))
}

/// What a probe process runs: opens a model file with its options (JSON) without allocating its tensors,
/// reports the outcome on the standard output and returns the code to exit with. llama.cpp may end the
/// process.
#[pyfunction]
pub(crate) fn probe(py: Python<'_>, path: PathBuf, options: &str) -> i32 {
    py.detach(move || llmserve_engine::probe::run_probe(&path, options, llmserve_engine::probe_model))
}

/// What the model in a file would be for with these options, by its header, which is read without the GIL:
/// `generation`, `embedding` or `reranking`. Raises `LoadError`.
#[pyfunction]
pub(crate) fn model_kind(path: PathBuf, config: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let py = config.py();
    let overrides = model_config(config)?.weights.metadata_overrides;
    let kind = exit::detach(py, move || llmserve_engine::model_kind(&path, &overrides));
    match kind.map_err(|error| load_exception(py, &error))? {
        ModelKind::Generation => Ok("generation"),
        ModelKind::Embedding(kind) if kind.is_ranking() => Ok("reranking"),
        ModelKind::Embedding(_) => Ok("embedding"),
    }
}

/// Bytes of KV cache that each token takes at most with these options, by a file's header, which is read
/// without the GIL; `None` if the cache does not grow by the token. Raises `LoadError`.
#[pyfunction]
pub(crate) fn kv_bytes_per_token(path: PathBuf, config: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = config.py();
    let config = model_config(config)?;
    let bytes = exit::detach(py, move || llmserve_engine::kv_bytes_per_token(&path, &config));
    bytes.map_err(|error| load_exception(py, &error))
}

/// A model that is being loaded. Dropping it cancels the load, unless others share it.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct Load(OwnedByProcess<Arc<LoadHandle>>);

impl Drop for Load {
    fn drop(&mut self) {
        // An engine that was loaded and not fetched is dropped with it.
        if let Some(handle) = self.0.take() {
            registry::release(handle);
        }
    }
}

#[pymethods]
impl Load {
    /// The events since the last call, or `None`: `("progress", 0 to 1)`, `("ready", Engine or Embedder)`,
    /// `("failed", LoadError)`.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        let handle = self.0.get().map_err(|error| exception(py, &error))?;
        let events = handle.take();
        exit::hold_caller_at_exit(py);
        if events.is_empty() {
            return Ok(None);
        }
        events.into_iter().map(|event| load_event(py, event)).collect::<PyResult<_>>().map(Some)
    }

    /// Gives the load up.
    fn cancel(&self) {
        if let Ok(handle) = self.0.get() {
            handle.cancel();
        }
    }
}

fn load_event(py: Python<'_>, event: LoadEvent) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        LoadEvent::Progress(progress) => (intern!(py, "progress"), progress).into_pyobject(py),
        LoadEvent::Ready(engine) => (intern!(py, "ready"), PyEngine::new(engine)).into_pyobject(py),
        LoadEvent::ReadyEmbedder(embedder) => {
            (intern!(py, "ready"), PyEmbedder::new(embedder)).into_pyobject(py)
        }
        LoadEvent::Failed(error) => (intern!(py, "failed"), load_exception(py, &error)).into_pyobject(py),
    }
}
