//! The engine's events as Python tuples whose first item names the event. Tuples are the cheapest
//! thing to make; `llmserve.transcript` reads them.

use llmserve_engine::{Delta, Event, Finished, TokenLogprobs, TokenRecord};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::exception;

/// `("accepted", prompt tokens)`, `("started", cached tokens)`, `("delta", text, tokens)`,
/// `("finished", reason, usage, timings, seed, stop)` or `("failed", exception)`.
pub(crate) fn event(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Accepted { num_prompt_tokens } => {
            (intern!(py, "accepted"), num_prompt_tokens).into_pyobject(py)
        }
        Event::Started { num_cached_tokens } => (intern!(py, "started"), num_cached_tokens).into_pyobject(py),
        Event::Delta(output) => delta(py, &output),
        Event::Finished(end) => finished(py, end),
        Event::Failed(error) => (intern!(py, "failed"), exception(py, &error)).into_pyobject(py),
    }
}

fn delta<'py>(py: Python<'py>, output: &Delta) -> PyResult<Bound<'py, PyTuple>> {
    let tokens = output.tokens.iter().map(|record| token(py, record)).collect::<PyResult<Vec<_>>>()?;
    (intern!(py, "delta"), output.text(), PyTuple::new(py, tokens)?).into_pyobject(py)
}

/// `(id, bytes, text, logprobs)`.
fn token<'py>(py: Python<'py>, record: &TokenRecord) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new(py, &record.bytes);
    let logprobs = record.logprobs.as_ref().map(|logprobs| token_logprobs(py, logprobs)).transpose()?;
    (record.id.0, bytes, &record.text, logprobs).into_bound_py_any(py)
}

/// `(logprob, ((id, logprob), ...))`.
fn token_logprobs<'py>(py: Python<'py>, logprobs: &TokenLogprobs) -> PyResult<Bound<'py, PyTuple>> {
    let top = logprobs.top.iter().map(|(id, logprob)| (id.0, *logprob));
    (logprobs.logprob, PyTuple::new(py, top.collect::<Vec<_>>())?).into_pyobject(py)
}

fn finished(py: Python<'_>, end: Finished) -> PyResult<Bound<'_, PyTuple>> {
    let (usage, timings) = (end.usage, end.timings);
    let usage = (
        usage.num_prompt_tokens,
        usage.num_cached_tokens,
        usage.num_completion_tokens,
        usage.num_draft_tokens,
        usage.num_accepted_tokens,
    );
    let timings = (
        timings.queue.as_secs_f64(),
        timings.prefill.as_secs_f64(),
        timings.decode.as_secs_f64(),
        timings.time_to_first_token.as_secs_f64(),
    );
    (intern!(py, "finished"), end.reason.as_str(), usage, timings, end.seed, end.stop).into_pyobject(py)
}
