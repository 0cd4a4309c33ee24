"""The page `/metrics`: what engines, requests, HTTP, gRPC and the process count."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from llmserve import __version__
from llmserve.server.apis.ops.engine_metrics import Snapshot, engine_lines
from llmserve.server.apis.ops.llamacpp_metrics import llamacpp_lines
from llmserve.server.apis.ops.vllm_metrics import vllm_lines
from llmserve.server.metrics import counter, gauge, metric_lines
from llmserve.server.metrics.process import process_lines
from llmserve.server.metrics.requests import KINDS
from llmserve.server.rpc_counters import RpcCounters
from llmserve.server.services import Services
from llmserve.server.web.counters import HttpCounters

_BUILD = gauge("llmserve_build_info", "1; the versions of llmserve and Python in its labels.")
_HTTP_OPEN = gauge("llmserve_http_requests_open", "HTTP requests whose answer is not complete.")
_HTTP_REQUESTS = counter(
    "llmserve_http_requests",
    "Answered HTTP requests; the status 499 means that the client left before the answer.",
)
_HTTP_SECONDS = counter(
    "llmserve_http_request_seconds", "Seconds from a request's head to the end of its answer."
)
_HTTP_LATE_ERRORS = counter(
    "llmserve_http_late_errors",
    "Answers that ended with an error after they had begun, by the status it stands for.",
)
_HTTP_ERRORS = counter(
    "llmserve_http_errors", "HTTP requests that were refused or failed, by the error's code."
)
_GRPC_OPEN = gauge("llmserve_grpc_requests_open", "gRPC calls whose answer is not complete.")
_GRPC_REQUESTS = counter("llmserve_grpc_requests", "Answered gRPC calls, by the name of their status.")
_GRPC_SECONDS = counter("llmserve_grpc_request_seconds", "Seconds from a gRPC call's head to its status.")


def render(services: Services) -> str:
    """The whole exposition."""
    return "\n".join(_lines(services)) + "\n"


def _lines(services: Services) -> Iterator[str]:
    snapshot, requests = Snapshot.of(services.registry), services.request_metrics
    versions = {"version": __version__, "python": platform.python_version()}
    yield from metric_lines(_BUILD, [(versions, 1)])
    yield from engine_lines(snapshot)
    for kind in KINDS:
        yield from requests.lines(kind)
    yield from _http_lines(services.http_counters)
    yield from _rpc_lines(services.rpc_counters)
    yield from process_lines()
    if services.settings.vllm_metrics:
        yield from vllm_lines(snapshot, requests)
    if services.settings.llamacpp_metrics:
        yield from llamacpp_lines(snapshot, requests)


def _http_lines(http: HttpCounters) -> Iterator[str]:
    yield from metric_lines(_HTTP_OPEN, [({}, http.num_open)])
    yield from metric_lines(
        _HTTP_REQUESTS,
        (
            ({"route": route, "method": method, "status": str(status)}, count)
            for (route, method, status), count in sorted(http.requests.items())
        ),
    )
    yield from metric_lines(
        _HTTP_SECONDS, (({"route": route}, seconds) for route, seconds in sorted(http.seconds.items()))
    )
    yield from metric_lines(
        _HTTP_LATE_ERRORS,
        (({"status": str(status)}, count) for status, count in sorted(http.late_errors.items())),
    )
    yield from metric_lines(
        _HTTP_ERRORS, (({"reason": code}, count) for code, count in sorted(http.errors.items()))
    )


def _rpc_lines(rpc: RpcCounters) -> Iterator[str]:
    yield from metric_lines(_GRPC_OPEN, [({}, rpc.num_open)])
    yield from metric_lines(
        _GRPC_REQUESTS,
        (
            ({"method": method, "status": status}, count)
            for (method, status), count in sorted(rpc.requests.items())
        ),
    )
    yield from metric_lines(
        _GRPC_SECONDS, (({"method": method}, seconds) for method, seconds in sorted(rpc.seconds.items()))
    )
