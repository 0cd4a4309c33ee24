//! An embedding model and its requests as Python objects. Every method returns at once, but for `join`.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use llmserve_engine::{
    Embedder, EmbeddingRequest, Embeddings, Job, OwnedByProcess, Prompt, RankingInput, RankingRequest,
    Special,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors::invalid_parameter;
use crate::fields::Field;
use crate::held::Held;
use crate::request::SpecialArgument;
use crate::tenant::TenantArgument;
use crate::tokens::{DetokenizeJob, TokenBuffer, TokenizeJob, token_ids};
use crate::wakeup::PyListener;
use crate::{exit, info, jobs};

/// A loaded embedding model.
#[pyclass(frozen, name = "Embedder", module = "llmserve._core")]
pub(crate) struct PyEmbedder {
    held: Held<Embedder>,
}

impl PyEmbedder {
    pub(crate) fn new(embedder: Embedder) -> Self {
        Self { held: Held::new(embedder) }
    }
}

#[pymethods]
impl PyEmbedder {
    /// Submits the inputs, which are taken out of the buffer, for a tenant or `None`. `dimensions`: how many values are kept of each
    /// vector, or `None`.
    fn embed(
        slf: &Bound<'_, Self>,
        inputs: (Bound<'_, InputBuffer>, TenantArgument),
        dimensions: &Bound<'_, PyAny>,
        normalize: &Bound<'_, PyAny>,
        listener: &PyListener,
    ) -> PyResult<EmbedJob> {
        let embedder = slf.get().held.open(slf.py())?;
        let (inputs, TenantArgument(tenant)) = inputs;
        let dimensions = Field::new("dimensions", dimensions.clone(), invalid_parameter).optional();
        let request = EmbeddingRequest {
            inputs: inputs.get().take(),
            dimensions: dimensions.map(|field| field.uint()).transpose()?,
            normalize: Field::new("normalize", normalize.clone(), invalid_parameter).bool()?,
            tenant,
        };
        let job = embedder.embed(request, Some(listener.0.clone()));
        Ok(EmbedJob { job: OwnedByProcess::new(job), _embedder: slf.clone().unbind() })
    }

    /// Submits pairs, which are taken out of the buffer, for a tenant or `None`. The answer has one value for each: its score.
    fn rank(
        slf: &Bound<'_, Self>,
        pairs: (Bound<'_, PairBuffer>, TenantArgument),
        truncate: &Bound<'_, PyAny>,
        raw_scores: &Bound<'_, PyAny>,
        listener: &PyListener,
    ) -> PyResult<EmbedJob> {
        let embedder = slf.get().held.open(slf.py())?;
        let (pairs, TenantArgument(tenant)) = pairs;
        let request = RankingRequest {
            pairs: std::mem::take(&mut *pairs.get().lock()),
            truncate: Field::new("truncate", truncate.clone(), invalid_parameter).bool()?,
            raw_scores: Field::new("raw_scores", raw_scores.clone(), invalid_parameter).bool()?,
            tenant,
        };
        let job = embedder.rank(request, Some(listener.0.clone()));
        Ok(EmbedJob { job: OwnedByProcess::new(job), _embedder: slf.clone().unbind() })
    }

    /// Begins to tokenize a text.
    fn tokenize(
        &self,
        text: &Bound<'_, PyAny>,
        add_special: bool,
        special: SpecialArgument,
        listener: &PyListener,
    ) -> PyResult<TokenizeJob> {
        let embedder = self.held.open(text.py())?;
        let text = Field::new("text", text.clone(), invalid_parameter).text()?;
        let listener = Some(listener.0.clone());
        Ok(TokenizeJob::new(embedder.tokenize(text, add_special, special.0, listener)))
    }

    /// Begins to turn token ids, which are taken out of the buffer, into bytes.
    fn detokenize(
        &self,
        py: Python<'_>,
        tokens: &TokenBuffer,
        render_special: bool,
        listener: &PyListener,
    ) -> PyResult<DetokenizeJob> {
        let embedder = self.held.open(py)?;
        let job = embedder.detokenize(tokens.take(), render_special, Some(listener.0.clone()));
        Ok(DetokenizeJob::new(job))
    }

    /// Counters and gauges: the fields of `llmserve.Stats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::stats(py, &self.held.get(py)?.stats())
    }

    /// Facts about the model: the fields of `llmserve.ModelInfo`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::model_info(py, self.held.get(py)?.info())
    }

    /// Raises `EngineDeadError` or `EngineClosedError` if it cannot be used any more.
    fn check_alive(&self, py: Python<'_>) -> PyResult<()> {
        self.held.check_alive(py)
    }

    /// Whether `shutdown` was called.
    fn is_shut_down(&self) -> bool {
        self.held.is_shut_down()
    }

    /// Ends every request, unless another load shares this model; returns at once.
    fn shutdown(&self) {
        self.held.shutdown();
    }

    /// Blocks, without the GIL, until the memory is free; at once if another load shares this model.
    fn join(&self, py: Python<'_>) {
        self.held.join(py);
    }
}

/// Inputs that are gathered piece by piece: many texts or ids take longer than a loop may stand still.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct InputBuffer(Mutex<Vec<Prompt>>);

#[pymethods]
impl InputBuffer {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Appends a text, or token ids.
    fn append(&self, input: &Bound<'_, PyAny>, add_special: bool, special: SpecialArgument) -> PyResult<()> {
        let name = format!("input[{}]", self.lock().len());
        let input = if input.is_instance_of::<PyString>() {
            let text = Field::new(&name, input.clone(), invalid_parameter).text()?;
            Prompt::Text { text, add_special, special: special.0 }
        } else {
            // Runs the iterator of whatever sequence that is.
            Prompt::Tokens(token_ids(&name, input)?)
        };
        self.lock().push(input);
        Ok(())
    }
}

impl InputBuffer {
    /// The inputs; the buffer is empty afterwards.
    fn take(&self) -> Vec<Prompt> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Prompt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pairs that are gathered piece by piece, as an [`InputBuffer`] gathers inputs.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct PairBuffer(Mutex<Vec<RankingInput>>);

#[pymethods]
impl PairBuffer {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Appends a query and a document.
    fn append(&self, query: &Bound<'_, PyAny>, document: &Bound<'_, PyAny>) -> PyResult<()> {
        let text = |name: &str, value: &Bound<'_, PyAny>| {
            let name = format!("{name}[{}]", self.lock().len());
            Field::new(&name, value.clone(), invalid_parameter).text()
        };
        let pair = RankingInput::Pair { query: text("query", query)?, document: text("input", document)? };
        self.lock().push(pair);
        Ok(())
    }

    /// Appends a text that has both, in which marks break control tokens.
    fn append_joined(&self, text: String) {
        self.lock().push(RankingInput::Joined(Prompt::Text {
            text,
            add_special: false,
            special: Special::Marked,
        }));
    }
}

impl PairBuffer {
    fn lock(&self) -> MutexGuard<'_, Vec<RankingInput>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Vectors as bytes of native `float32`, values of one vector, and tokens of each input.
type Taken<'py> = (Bound<'py, PyBytes>, usize, Vec<usize>);

/// Inputs that are waiting or being computed. Dropping it gives up those that have not been computed.
#[pyclass(frozen, module = "llmserve._core")]
pub(crate) struct EmbedJob {
    job: OwnedByProcess<Job<Embeddings>>,
    /// A model without other holders stays open until its requests are read.
    _embedder: Py<PyEmbedder>,
}

#[pymethods]
impl EmbedJob {
    /// The vectors, once; `None` while the job runs. Raises its failure.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Taken<'py>>> {
        jobs::take(py, &self.job)?.map(|embeddings| taken(py, embeddings)).transpose()
    }

    /// Gives up inputs that have not been computed. A cancelled task may live on in the traceback of its exception.
    fn cancel(&self) {
        if let Ok(job) = self.job.get() {
            job.cancel();
        }
    }
}

fn taken(py: Python<'_>, embeddings: Embeddings) -> PyResult<Taken<'_>> {
    let Embeddings { dimensions, values, num_tokens } = embeddings;
    let bytes = PyBytes::new_with(py, values.len() * size_of::<f32>(), |bytes| {
        for (place, value) in bytes.chunks_exact_mut(size_of::<f32>()).zip(&values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })?;
    Ok((bytes, dimensions, num_tokens))
}

/// Vectors (bytes of native `float32`, `dimensions` values each) as JSON arrays, made without the GIL. Each
/// number is the shortest that stands for its float.
#[pyfunction]
pub(crate) fn json_vectors<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    dimensions: usize,
) -> Vec<Bound<'py, PyBytes>> {
    let bytes = data.as_bytes();
    let texts: Vec<String> = exit::detach(py, || {
        let vectors = bytes.chunks_exact(dimensions.max(1) * size_of::<f32>());
        vectors.map(json_vector).collect()
    });
    texts.iter().map(|text| PyBytes::new(py, text.as_bytes())).collect()
}

fn json_vector(bytes: &[u8]) -> String {
    let (values, _) = bytes.as_chunks();
    let mut text = String::with_capacity(2 + values.len() * 12);
    for (index, value) in values.iter().enumerate() {
        text.push(if index == 0 { '[' } else { ',' });
        // With a point or an exponent if needed, so that it is JSON and every reader takes it for a float.
        write!(text, "{:?}", f32::from_ne_bytes(*value)).unwrap_or(());
    }
    text.push(']');
    text
}
