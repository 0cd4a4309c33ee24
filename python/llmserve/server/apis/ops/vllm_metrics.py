"""The metrics that dashboards, autoscalers and routers know by vLLM's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmserve.server.apis.ops.engine_metrics import Snapshot, cache_config, kv_usage
from llmserve.server.metrics import Metric, RequestMetrics, counter, gauge, metric_lines
from llmserve.server.metrics import requests as kinds
from llmserve.types import Stats

_LABEL = "model_name"


_GAUGES: Mapping[Metric, Callable[[Stats], float]] = {
    gauge("vllm:num_requests_running", "Sequences in the batch."): lambda stats: stats.num_running,
    gauge("vllm:num_requests_waiting", "Requests that are waiting for a slot."): lambda stats: (
        stats.num_waiting
    ),
    gauge("vllm:kv_cache_usage_perc", "Share of the KV cells that sequences in the batch use, 0 to 1."): (
        lambda stats: kv_usage(stats.num_running_cells, stats.num_cells)
    ),
}

_COUNTERS: Mapping[Metric, str] = {
    counter(
        "vllm:prompt_tokens", "Prompt tokens of started requests, including cached ones."
    ): "prompt_tokens",
    counter("vllm:generation_tokens", "Drawn tokens."): "completion_tokens",
    counter("vllm:prefix_cache_queries", "Prompt tokens that were looked for in the cache."): "prompt_tokens",
    counter(
        "vllm:prefix_cache_hits", "Prompt tokens that were taken from the prefix cache."
    ): "cached_tokens",
    counter("vllm:num_preemptions", "Times that a sequence lost its slot to others."): "preemptions",
}

_SUCCESS = counter("vllm:request_success", "Finished requests by reason.")
_REASONS = {"stop": "requests_stopped", "length": "requests_length", "abort": "requests_cancelled"}
_CACHE_CONFIG = gauge("vllm:cache_config_info", "1; the size of a model's KV cache in its labels.")

_HISTOGRAMS = {
    kinds.FIRST_TOKEN: kinds.FIRST_TOKEN,
    kinds.GAP: kinds.GAP,
    kinds.WHOLE: kinds.WHOLE,
    kinds.QUEUE: "request_queue_time_seconds",
    kinds.PREFILL: "request_prefill_time_seconds",
    kinds.DECODE: "request_decode_time_seconds",
    kinds.PROMPT_TOKENS: kinds.PROMPT_TOKENS,
    kinds.GENERATION_TOKENS: kinds.GENERATION_TOKENS,
}
"""Kind -> name."""


def vllm_lines(snapshot: Snapshot, requests: RequestMetrics) -> Iterator[str]:
    """The metrics under vLLM's names.

    The gauges are there from the first moment, with 0: a router takes one that is missing for an error.
    """
    stats = dict(snapshot.living)
    names = [model.id for model in snapshot.models] or [""]
    for metric, value in _GAUGES.items():
        samples = (({_LABEL: name}, value(stats[name]) if name in stats else 0) for name in names)
        yield from metric_lines(metric, samples)
    for metric, field in _COUNTERS.items():
        samples = (({_LABEL: name}, getattr(own, field)) for name, own in stats.items())
        yield from metric_lines(metric, samples)
    yield from metric_lines(
        _SUCCESS,
        (
            ({_LABEL: name, "finished_reason": reason}, getattr(own, field))
            for name, own in stats.items()
            for reason, field in _REASONS.items()
        ),
    )
    configs = (({_LABEL: name, **cache_config(own)}, 1) for name, own in stats.items() if own.num_cells)
    yield from metric_lines(_CACHE_CONFIG, configs)
    for kind, name in _HISTOGRAMS.items():
        yield from requests.lines(kind, f"vllm:{name}", _LABEL)
