"""The one gate before the endpoints: everything that applies to all requests, in one pass."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from llmserve.errors import LlmserveError
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import ServerDrainingError
from llmserve.server.request_notes import notes
from llmserve.server.settings import Settings
from llmserve.server.tracing import Tracing
from llmserve.server.trust.hosts import HostRule, check_single
from llmserve.server.trust.keys import KeyRule
from llmserve.server.trust.origins import OriginRule
from llmserve.server.trust.tenants import TenantRule, serve_as
from llmserve.server.web.answer import Answer
from llmserve.server.web.bodies import Bodies
from llmserve.server.web.cors import Cors
from llmserve.server.web.counters import HttpCounters
from llmserve.server.web.cutting import cut_off
from llmserve.server.web.disconnect import Connections
from llmserve.server.web.endpoint import Endpoint, Route
from llmserve.server.web.error_table import INTERNAL, rule_for
from llmserve.server.web.errors import CLOSE, Dialect, fault_of, send_fault
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import header
from llmserve.server.web.http_trace import http_end, http_head
from llmserve.server.web.request_id import current_request_id, request_id
from llmserve.server.web.request_log import logged
from llmserve.server.web.streams import AnswerFailedError, StreamLimits
from llmserve.server.web.table import EndpointTable, own_path
from llmserve.server.web.uploads import Upload
from llmserve.server.web.writing import ClientStalledError

logger = logging.getLogger(__name__)

_EXPOSED_HEADERS = (
    "Retry-After",
    "WWW-Authenticate",
    "X-LLMServe-Ignored",
    "X-LLMServe-Seed",
    "X-Request-ID",
)
"""The headers that pages may read in every answer, beside those that its dialect adds."""

_ANSWER, _ROUTE = "llmserve.answer", "llmserve.route"
"""The key under which a scope has them, for what runs behind CORS."""


class Gate:
    """Serves requests: counts them, lets in those that may pass, and answers what their handlers raise."""

    def __init__(
        self,
        settings: Settings,
        lifecycle: Lifecycle,
        counters: HttpCounters,
        tracing: Tracing,
        routes: Sequence[Route],
    ) -> None:
        self._lifecycle = lifecycle
        self._counters = counters
        self._tracing = tracing
        self._table = EndpointTable(routes)
        self._hosts = HostRule(settings.allowed_hosts)
        self._origins = OriginRule(settings.cors_origins, self._hosts)
        self._keys = KeyRule(settings.api_key)
        self._tenant_of = TenantRule(settings)
        self._limits = StreamLimits(settings.sse_ping_s, settings.stall_s)
        self._bodies = Bodies(settings.body_timeout_s, settings.max_bodies_bytes)
        self._connections = Connections(settings.max_body_bytes)
        # Clients that send all before they read get their answer if they exceed the limit by no more.
        self._max_rest_bytes = 2 * settings.max_body_bytes
        # Errors are answered behind CORS, so that browsers may read them.
        self._app: ASGIApp = self._serve
        if settings.cors_origins:
            self._app = Cors(
                self._serve,
                allow_origins=settings.cors_origins,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=("*",),
                expose_headers=(*_EXPOSED_HEADERS, *_own_headers(routes)),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        answer = Answer(send)
        route, scope["path_params"] = self._table.find(scope)
        scope[_ANSWER], scope[_ROUTE] = answer, route
        try:
            with (
                request_id(header(scope, b"x-request-id")) as number,
                self._counters.request(route.endpoint.shown_path, scope["method"], answer),
                self._reported(route.endpoint, scope, answer),
            ):
                answer.headers.append((b"x-request-id", number.encode()))
                if _leaves_http(scope):
                    answer.headers.append(CLOSE)
                await self._app(scope, receive, answer.send)
        except ClientStalledError:
            cut_off(send)

    @contextmanager
    def _reported(self, endpoint: Endpoint, scope: Scope, answer: Answer) -> Iterator[None]:
        """Serves a request that has a line in the log and a span of its trace."""
        # Whoever probes a server does so every few seconds.
        if endpoint.is_probe:
            yield
            return
        log = logged(scope["method"], own_path(scope), lambda: answer.status)
        with log, self._tracing.request(lambda: http_head(scope, endpoint), lambda: http_end(answer)):
            yield

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Answer = scope[_ANSWER]
        route: Route = scope[_ROUTE]
        upload = Upload(scope, receive, self._max_rest_bytes, self._lifecycle)
        dialect = route.endpoint.dialect_of(scope)
        answer.headers += dialect.answer_headers()
        try:
            self._admit(scope, route.endpoint)
            serve_as(self._tenant_of(scope))
            with self._lifecycle.exchange():
                await self._run(route, scope, upload.receive, send)
        except ClientDisconnect:
            logger.debug("request %s: its client left", current_request_id())
        except ClientStalledError:
            logger.warning("request %s: cut off, its client stopped reading", current_request_id())
            raise
        except AnswerFailedError as failed:
            self._note_failure(failed.error)
            self._note(failed.error, dialect)
        except Exception as error:
            fault = fault_of(error, dialect.name)
            self._note_failure(error)
            if answer.has_begun:
                self._note(error, dialect)
            else:
                await send_fault(fault, dialect, send, self._limits.stall_s, upload)

    def _admit(self, scope: Scope, endpoint: Endpoint) -> None:
        """Raises the refusal of a request that may not pass."""
        check_single(scope)
        if not endpoint.is_probe:
            self._hosts(scope)
        self._origins(scope, may_be_linked=endpoint.is_safe)
        self._keys(scope, endpoint.access)
        if not self._lifecycle.is_serving and not endpoint.is_probe:
            raise ServerDrainingError

    async def _run(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._connections.watched(scope, receive, scope[_ANSWER]) as receive_watched:
                request = Request(scope, receive_watched)
                exchange = Exchange(request, send, self._limits, self._bodies)
                try:
                    await route.serve(exchange)
                except LlmserveError as error:
                    raise exchange.named(error) from error.__cause__
        except asyncio.CancelledError:
            if not self._lifecycle.is_stopping:
                raise
            # The answer is complete: the server gives up on a client that does not read it.
            raise ClientStalledError from None

    def _note_failure(self, error: Exception) -> None:
        """Counts a request that was refused or failed."""
        code = error.code if isinstance(error, LlmserveError) else "internal"
        self._counters.errors[code] += 1
        notes().error = code

    def _note(self, error: Exception, dialect: Dialect) -> None:
        """Logs and counts an error that no status reports. An unexpected one is in the log already."""
        rule = rule_for(error)
        status = (rule or INTERNAL).status_for(dialect.name)
        self._counters.late_errors[status] += 1
        if rule is not None:
            level = logging.WARNING if status >= 500 else logging.INFO
            logger.log(level, "request %s failed after its answer began: %s", current_request_id(), error)


def _leaves_http(scope: Scope) -> bool:
    """Whether a server may have taken the body of a request for whatever comes after it."""
    is_http1 = str(scope.get("http_version", "1.1")).startswith("1")
    return is_http1 and (scope["method"] == "CONNECT" or header(scope, b"upgrade") is not None)


def _own_headers(routes: Sequence[Route]) -> list[str]:
    return sorted({name for route in routes for name in route.endpoint.dialect.header_names})
