//! The engine's events as Python tuples whose first item names the event. Tuples are the cheapest
//! thing to make; `llmserve._binding.transcript` reads them.

use std::collections::VecDeque;
use std::vec::IntoIter;

use llmserve_engine::{Delta, Event, Finished, PromptToken, TokenLogprobs, TokenRecord, TokenScore};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::exception;

/// Events that are handed over in pieces: the tokens of a long output take longer to convert than an
/// event loop may stand still.
#[derive(Default)]
pub(crate) struct Pending {
    /// The rest of the prompt's tokens, and that of a delta: one of them is empty. They come before the events.
    prompt: IntoIter<PromptToken>,
    tokens: IntoIter<TokenRecord>,
    events: VecDeque<Event>,
}

impl Pending {
    pub(crate) fn extend(&mut self, events: Vec<Event>) {
        self.events.extend(events);
    }

    /// The next events, with at most `limit` tokens.
    pub(crate) fn take(&mut self, mut limit: usize) -> Vec<Event> {
        let mut taken = Vec::new();
        loop {
            let prompt: Vec<_> = self.prompt.by_ref().take(limit).collect();
            limit -= prompt.len();
            if !prompt.is_empty() {
                taken.push(Event::Prompt(prompt));
            }
            let tokens: Vec<_> = self.tokens.by_ref().take(limit).collect();
            limit -= tokens.len();
            if !tokens.is_empty() {
                taken.push(Event::Delta(Delta { tokens }));
            }
            if limit == 0 {
                return taken;
            }
            match self.events.pop_front() {
                Some(Event::Prompt(prompt)) => self.prompt = prompt.into_iter(),
                Some(Event::Delta(delta)) => self.tokens = delta.tokens.into_iter(),
                Some(event) => taken.push(event),
                None => return taken,
            }
        }
    }
}

/// `("accepted", prompt tokens)`, `("started", cached tokens)`, `("progress", computed tokens)`, `("prompt", tokens)`,
/// `("delta", text, tokens)`, `("finished", reason, usage, timings, seed, stop, is_complete)` or `("failed", exception)`.
pub(crate) fn event(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Accepted { num_prompt_tokens } => {
            (intern!(py, "accepted"), num_prompt_tokens).into_pyobject(py)
        }
        Event::Started { num_cached_tokens } => (intern!(py, "started"), num_cached_tokens).into_pyobject(py),
        Event::Progress { num_computed_tokens } => {
            (intern!(py, "progress"), num_computed_tokens).into_pyobject(py)
        }
        Event::Prompt(tokens) => {
            let tokens = tokens.iter().map(|token| prompt_token(py, token)).collect::<PyResult<Vec<_>>>()?;
            (intern!(py, "prompt"), PyTuple::new(py, tokens)?).into_pyobject(py)
        }
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

/// `(id, bytes, (rank, logprobs))`.
fn prompt_token<'py>(py: Python<'py>, token: &PromptToken) -> PyResult<Bound<'py, PyAny>> {
    let score = |TokenScore { logprobs, rank }: &TokenScore| {
        (*rank, token_logprobs(py, logprobs)?).into_bound_py_any(py)
    };
    let score = token.score.as_ref().map(score).transpose()?;
    (token.id.0, PyBytes::new(py, &token.bytes), score).into_bound_py_any(py)
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
    let reason = end.reason.as_str();
    (intern!(py, "finished"), reason, usage, timings, end.seed, end.stop, end.is_complete).into_pyobject(py)
}

#[cfg(test)]
mod tests {
    use llmserve_engine::{Delta, Event, PromptToken, TokenId, TokenRecord};

    use super::Pending;

    fn delta(ids: std::ops::Range<i32>) -> Event {
        let record =
            |id| TokenRecord { id: TokenId(id), bytes: Vec::new(), text: String::new(), logprobs: None };
        Event::Delta(Delta { tokens: ids.map(record).collect() })
    }

    fn prompt(ids: std::ops::Range<i32>) -> Event {
        let token = |id| PromptToken { id: TokenId(id), bytes: Vec::new(), score: None };
        Event::Prompt(ids.map(token).collect())
    }

    #[test]
    fn tokens_come_in_pieces_and_every_event_in_its_place() {
        let (accepted, started) =
            (Event::Accepted { num_prompt_tokens: 1 }, Event::Started { num_cached_tokens: 0 });
        let mut pending = Pending::default();
        pending.extend(vec![accepted.clone(), prompt(0..3), started.clone(), delta(0..5)]);
        assert_eq!(pending.take(2), [accepted.clone(), prompt(0..2)]);
        assert_eq!(pending.take(3), [prompt(2..3), started, delta(0..2)]);
        pending.extend(vec![delta(5..6), accepted.clone()]);
        assert_eq!(pending.take(2), [delta(2..4)]);
        assert_eq!(pending.take(10), [delta(4..5), delta(5..6), accepted]);
        assert_eq!(pending.take(10), []);
    }
}
