"""Routes for operators and readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from llmserve import __version__
from llmserve.server.apis.ops import metrics
from llmserve.server.apis.ops.openapi import build_document
from llmserve.server.metrics.exposition import MEDIA_TYPE
from llmserve.server.metrics.process import started_at
from llmserve.server.models import ModelReport
from llmserve.server.page.assets import accepts_html, accepts_json, send_asset
from llmserve.server.services import Services
from llmserve.server.trust.keys import KeyRule
from llmserve.server.web.endpoint import Content, Endpoint, Route, json_of, routes_of
from llmserve.server.web.errors import PLAIN
from llmserve.server.web.exchange import Exchange

_DOCUMENT = Endpoint(path="/openapi.json", method="GET", dialect=PLAIN, access="open")
"""Needs no key, like the pages: it reveals nothing."""

_RUNNING = b"Ollama is running"
"""What Ollama's clients look for at `/`."""

_NOT_CACHED = {"Cache-Control": "no-store"}

_HEALTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["status", "models"],
    "properties": {
        "status": {"type": "string", "enum": ["ok", "error", "draining"], "examples": ["ok"]},
        "models": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "state"],
                "properties": {
                    "id": {"type": "string", "description": "The file's name without its suffix."},
                    "state": {"type": "string", "enum": ["loading", "ready", "busy", "failed"]},
                    "has_draft_head": {
                        "type": "boolean",
                        "description": "Whether the file has a head for multi-token prediction (MTP); there "
                        "once it is loaded.",
                    },
                    "backend": {
                        "type": "string",
                        "description": "What computes the layers, `CPU` or the GPUs with layers; there "
                        "once it is loaded.",
                    },
                    "num_gpu_layers": {
                        "type": "integer",
                        "description": "Layers on GPUs, the output layer among them; there once it is "
                        "loaded.",
                    },
                    "memory_bytes": {
                        "type": "integer",
                        "description": "Memory of the weights and of all KV cells; there once it is loaded.",
                    },
                    "kind": {
                        "type": "string",
                        "enum": ["embedding", "reranking"],
                        "description": "Of models that embed or rank; absent for models that generate.",
                    },
                },
            },
        },
    },
}


def _status_schema(*statuses: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": {"type": "string", "enum": list(statuses)},
            "reason": {"type": "string", "description": "What is missing."},
        },
    }


_HEALTH_MEDIA = json_of(_HEALTH_SCHEMA)

_HEALTH = Endpoint(
    path="/health",
    method="GET",
    dialect=PLAIN,
    access="open",
    is_probe=True,
    operation_id="health",
    summary="Health check",
    description=(
        "Answers 200 while the process serves, also while a model is being loaded or is busy. 503 with "
        "status `error` while an engine that died has not been replaced, and with `draining` before the "
        "server ends."
    ),
    responses={
        200: Content("The server is healthy.", _HEALTH_MEDIA),
        503: Content("An engine died, or the server is draining.", _HEALTH_MEDIA),
    },
)

_LIVE = Endpoint(
    path="/live",
    method="GET",
    dialect=PLAIN,
    access="open",
    is_probe=True,
    operation_id="live",
    summary="Liveness",
    description="Answers 200 for as long as the process serves requests at all.",
    responses={200: Content("The process answers.", json_of(_status_schema("ok")))},
)

_READY = Endpoint(
    path="/ready",
    method="GET",
    dialect=PLAIN,
    access="open",
    is_probe=True,
    operation_id="ready",
    summary="Readiness",
    description=(
        "Answers 200 while requests should be sent here. 503 with the `reason` while the model of the start "
        "is being loaded or has failed, while an engine that died has not been replaced, and from the signal "
        "to end on, even while requests are still served."
    ),
    responses={
        200: Content("The server is ready.", json_of(_status_schema("ok"))),
        503: Content(
            "The server is not ready.", json_of(_status_schema("loading", "failed", "error", "draining"))
        ),
    },
)

_METRICS = Endpoint(
    path="/metrics",
    method="GET",
    dialect=PLAIN,
    access="local",
    is_probe=True,
    operation_id="metrics",
    summary="Counters, gauges and histograms",
    description="Prometheus text exposition of what engines, requests and the server count and measure.",
    responses={200: Content("The metrics.", {"text/plain": {"schema": {"type": "string"}}})},
)


class OpsApi:
    """Probes, metrics and documentation over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._described: list[Endpoint] = []

    def describe(self, routes: Iterable[Route]) -> None:
        """Sets what `/openapi.json` describes."""
        self._described = [route.endpoint for route in routes]

    @cached_property
    def _document(self) -> dict[str, Any]:
        needs_key = bool(self._services.settings.api_key)
        return build_document(self._described, __version__, needs_key=needs_key)

    def routes(self) -> list[Route]:
        """All routes."""
        is_open = self._services.settings.metrics_open
        metrics = replace(_METRICS, access="open") if is_open else _METRICS
        return [*routes_of(self), Route(metrics, self.metrics)]

    @_HEALTH
    @replace(_HEALTH, path="/v1/health", operation_id="healthWithVersion", summary="Health check, with /v1")
    @replace(_HEALTH, path="/healthz", operation_id="healthz", summary="Health check, as Kubernetes names it")
    async def health(self, exchange: Exchange) -> None:
        """`GET /health`."""
        registry = self._services.registry
        status = "ok"
        if registry.has_dead_engine:
            status = "error"
        elif not self._services.lifecycle.is_serving:
            status = "draining"
        models = [_shown(report) for report in registry.states()]
        await exchange.send_json(
            {"status": status, "models": models},
            status=200 if status == "ok" else 503,
            headers=_NOT_CACHED,
        )

    @_LIVE
    @replace(_LIVE, path="/livez", operation_id="livez", summary="Liveness, as Kubernetes names it")
    async def live(self, exchange: Exchange) -> None:
        """`GET /live`."""
        await exchange.send_json({"status": "ok"}, headers=_NOT_CACHED)

    @_READY
    @replace(_READY, path="/readyz", operation_id="readyz", summary="Readiness, as Kubernetes names it")
    async def ready(self, exchange: Exchange) -> None:
        """`GET /ready`."""
        if (lack := self._services.readiness.lack()) is None:
            await exchange.send_json({"status": "ok"}, headers=_NOT_CACHED)
        else:
            answer = {"status": lack.status, "reason": lack.reason}
            await exchange.send_json(answer, status=503, headers=_NOT_CACHED)

    async def metrics(self, exchange: Exchange) -> None:
        """`GET /metrics`."""
        await exchange.send_bytes(
            metrics.render(self._services).encode(),
            MEDIA_TYPE,
            headers={"Process-Start-Time-Unix": str(int(started_at()))},
        )

    @Endpoint(path="/", method="GET", dialect=PLAIN, access="open")
    async def index(self, exchange: Exchange) -> None:
        """`GET /`: the page for browsers, an index for programs that ask for JSON, and for all others what
        Ollama says.
        """
        scope = exchange.request.scope
        if accepts_html(scope):
            await send_asset(exchange, "index.html", vary="Accept")
            return
        # Only the page is open.
        KeyRule(self._services.settings.api_key)(scope, "key")
        if not accepts_json(scope):
            await exchange.send_bytes(_RUNNING, "text/plain; charset=utf-8", headers={"Vary": "Accept"})
            return
        await exchange.send_json(
            {
                "name": "llmserve",
                "version": __version__,
                "docs": "/docs",
                "openapi": _DOCUMENT.path,
                "health": _HEALTH.path,
                "ready": _READY.path,
                "models": [_shown(report) for report in self._services.registry.states()],
            },
            headers={"Vary": "Accept"},
        )

    @_DOCUMENT
    async def openapi(self, exchange: Exchange) -> None:
        """`GET /openapi.json`, with the path under which this application is mounted."""
        root = exchange.request.scope.get("root_path", "")
        servers = [{"url": root or "/", "description": "This server"}]
        await exchange.send_json({**self._document, "servers": servers})


def _shown(report: ModelReport) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": report.id, "state": report.state}
    if report.kind in ("embedding", "reranking"):
        shown["kind"] = report.kind
    if report.has_draft_head is not None:
        shown["has_draft_head"] = report.has_draft_head
    if report.backend is not None:
        shown |= {"backend": report.backend, "num_gpu_layers": report.num_gpu_layers}
    if report.memory_bytes is not None:
        shown["memory_bytes"] = report.memory_bytes
    return shown
