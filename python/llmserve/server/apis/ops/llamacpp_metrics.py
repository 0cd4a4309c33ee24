"""The metrics that dashboards know by llama-server's names. It serves one model, so they have no labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmserve.server.apis.ops.engine_metrics import Snapshot
from llmserve.server.metrics import Metric, RequestMetrics, counter, gauge, metric_lines
from llmserve.server.metrics import requests as kinds

_PREFIX = "llamacpp:"


def llamacpp_lines(snapshot: Snapshot, requests: RequestMetrics) -> Iterator[str]:
    """The metrics under llama-server's names, over all models.

    The rates are averages since the start; llama-server's are averages since the last scrape.
    """
    prompt = snapshot.total("prompt_tokens") - snapshot.total("cached_tokens")
    predicted = snapshot.total("completion_tokens")
    prompt_s, predicted_s = requests.seconds(kinds.PREFILL), requests.seconds(kinds.DECODE)
    steps = snapshot.total("steps")
    decode_rows = snapshot.total("rows") - snapshot.total("prefill_rows")
    values: Mapping[Metric, float] = {
        _counter("prompt_tokens", "Prompt tokens that were computed, without cached ones."): prompt,
        _counter("prompt_tokens_cached", "Prompt tokens from the prefix cache."): snapshot.total(
            "cached_tokens"
        ),
        _counter("prompt_seconds", "Seconds from leaving the queue to the first token."): prompt_s,
        _counter("tokens_predicted", "Drawn tokens."): predicted,
        _counter("tokens_predicted_seconds", "Seconds from the first token to the last."): predicted_s,
        _counter("n_decode", "Steps of the engine."): steps,
        Metric(
            f"{_PREFIX}n_tokens_max", "counter", "Most tokens of prompt and output together so far."
        ): requests.longest,
        _counter("spec_decode_num_draft_tokens", "Tokens that drafters proposed."): snapshot.total(
            "draft_tokens"
        ),
        _counter("spec_decode_num_accepted_tokens", "Proposed tokens that were accepted."): snapshot.total(
            "accepted_tokens"
        ),
        _counter("spec_decode_num_drafts", "Drafts that were verified."): snapshot.total("drafts"),
        _gauge("prompt_tokens_seconds", "Prompt tokens a second."): _rate(prompt, prompt_s),
        _gauge("predicted_tokens_seconds", "Drawn tokens a second and request."): _rate(
            predicted, predicted_s
        ),
        _gauge("requests_processing", "Sequences in the batch."): snapshot.total("num_running"),
        _gauge("requests_deferred", "Requests that are waiting for a slot."): snapshot.total("num_waiting"),
        _gauge("n_busy_slots_per_decode", "Rows of generated tokens in a step."): _rate(decode_rows, steps),
    }
    for metric, value in values.items():
        yield from metric_lines(metric, [({}, value)])


def _counter(name: str, doc: str) -> Metric:
    return counter(_PREFIX + name, doc)


def _gauge(name: str, doc: str) -> Metric:
    return gauge(_PREFIX + name, doc)


def _rate(amount: float, per: float) -> float:
    return amount / per if per else 0.0
