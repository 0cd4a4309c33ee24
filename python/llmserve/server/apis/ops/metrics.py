"""Prometheus text exposition (format 0.0.4) of the engines' and the server's counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from llmserve.server.models import Registry
from llmserve.server.rpc_counters import RpcCounters
from llmserve.server.web.counters import HttpCounters
from llmserve.types import Stats

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's name, type and meaning."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"llmserve_{name}", "gauge", text)


def _counter(name: str, text: str) -> Metric:
    return Metric(f"llmserve_{name}_total", "counter", text)


STATS_METRICS: Mapping[str, Metric] = {
    "num_preparing": _gauge(
        "requests_preparing",
        "Requests whose prompt is being tokenized, or that are waiting for their turn in a session.",
    ),
    "num_waiting": _gauge("requests_waiting", "Requests that are waiting for a slot."),
    "num_running": _gauge("requests_running", "Sequences in the batch."),
    "num_slots": _gauge("slots", "Maximum number of sequences in the batch."),
    "num_cells": _gauge("kv_cells", "Total number of KV cells of all sequences."),
    "num_used_cells": _gauge("kv_cells_used", "KV cells in use, including cached tokens."),
    "context_length": _gauge("context_length_tokens", "Maximum number of tokens in one sequence."),
    "num_threads": _gauge("threads", "Compute threads."),
    "parked_bytes": _gauge("parked_bytes", "Host memory used by parked sequences."),
    "requests_accepted": _counter("requests_accepted", "Requests that were accepted into the queue."),
    "requests_refused": _counter(
        "requests_refused", "Requests that were refused: invalid, too long, or the queue was full."
    ),
    "requests_stopped": _counter("requests_stopped", "Requests that finished with the reason stop."),
    "requests_length": _counter("requests_length", "Requests that finished with the reason length."),
    "requests_cancelled": _counter("requests_cancelled", "Requests that were cancelled."),
    "requests_failed": _counter("requests_failed", "Requests that failed."),
    "prompt_tokens": _counter("prompt_tokens", "Prompt tokens of started requests, including cached ones."),
    "cached_tokens": _counter("cached_tokens", "Prompt tokens that were taken from the prefix cache."),
    "completion_tokens": _counter("completion_tokens", "Drawn tokens."),
    "draft_tokens": _counter("draft_tokens", "Tokens that drafters proposed."),
    "accepted_tokens": _counter("accepted_tokens", "Proposed tokens that were accepted."),
    "draft_seconds": _counter("draft_seconds", "Seconds spent in the draft context."),
    "num_draft_users": _gauge("draft_users", "Number of users that keep the draft context open."),
    "preemptions": _counter(
        "preemptions", "Times that a sequence lost its slot to others and resumed later."
    ),
    "steps": _counter("steps", "Number of steps of the engine."),
    "rows": _counter("rows", "Number of rows in all steps."),
    "decode_seconds": _counter("decode_seconds", "Seconds spent in llama.cpp."),
    "overhead_seconds": _counter("overhead_seconds", "Seconds spent in steps outside llama.cpp."),
}
"""Field of :class:`llmserve.types.Stats` -> metric."""

_MODEL_STATE = _gauge("model_state", "1 for the current state of a model.")
_MODEL_STATES = ("loading", "ready", "busy", "failed")
_ACCEPTANCE = _gauge(
    "draft_acceptance_ratio", "Share of proposed tokens that were accepted; absent until one is proposed."
)
_HTTP_OPEN = _gauge("http_requests_open", "HTTP requests whose answer is not complete.")
_HTTP_REQUESTS = _counter(
    "http_requests", "Answered HTTP requests; the status 499 means that the client left before the answer."
)
_HTTP_SECONDS = _counter("http_request_seconds", "Seconds from a request's head to the end of its answer.")
_HTTP_LATE_ERRORS = _counter(
    "http_late_errors", "Answers that ended with an error after they had begun, by the status it stands for."
)
_GRPC_OPEN = _gauge("grpc_requests_open", "gRPC calls whose answer is not complete.")
_GRPC_REQUESTS = _counter("grpc_requests", "Answered gRPC calls, by the name of their status.")
_GRPC_SECONDS = _counter("grpc_request_seconds", "Seconds from a gRPC call's head to its status.")


def render(registry: Registry, http: HttpCounters, rpc: RpcCounters) -> str:
    """The whole exposition."""
    return "\n".join([*_model_lines(registry), *_http_lines(http), *_rpc_lines(rpc)]) + "\n"


def _model_lines(registry: Registry) -> Iterator[str]:
    reports = registry.states()
    yield from _metric_lines(
        _MODEL_STATE,
        (
            ({"model": report.id, "state": state}, int(report.state == state))
            for report in reports
            for state in _MODEL_STATES
        ),
    )
    living = [(model.id, stats) for model in registry.models if (stats := model.stats()) is not None]
    for field, metric in STATS_METRICS.items():
        yield from _metric_lines(metric, (({"model": name}, _value(stats, field)) for name, stats in living))
    ratios = [({"model": name}, stats.acceptance) for name, stats in living]
    yield from _metric_lines(_ACCEPTANCE, ((labels, ratio) for labels, ratio in ratios if ratio is not None))


def _value(stats: Stats, field: str) -> float:
    value: float = getattr(stats, field)
    return value


def _http_lines(http: HttpCounters) -> Iterator[str]:
    yield from _metric_lines(_HTTP_OPEN, [({}, http.num_open)])
    yield from _metric_lines(
        _HTTP_REQUESTS,
        (
            ({"route": route, "method": method, "status": str(status)}, count)
            for (route, method, status), count in sorted(http.requests.items())
        ),
    )
    yield from _metric_lines(
        _HTTP_SECONDS, (({"route": route}, seconds) for route, seconds in sorted(http.seconds.items()))
    )
    yield from _metric_lines(
        _HTTP_LATE_ERRORS,
        (({"status": str(status)}, count) for status, count in sorted(http.late_errors.items())),
    )


def _rpc_lines(rpc: RpcCounters) -> Iterator[str]:
    yield from _metric_lines(_GRPC_OPEN, [({}, rpc.num_open)])
    yield from _metric_lines(
        _GRPC_REQUESTS,
        (
            ({"method": method, "status": status}, count)
            for (method, status), count in sorted(rpc.requests.items())
        ),
    )
    yield from _metric_lines(
        _GRPC_SECONDS, (({"method": method}, seconds) for method, seconds in sorted(rpc.seconds.items()))
    )


def _metric_lines(metric: Metric, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in samples:
        yield f"{metric.name}{_labels(labels)} {value!r}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
