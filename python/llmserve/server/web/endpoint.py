"""Endpoints as data: the router and the OpenAPI document are built from the same list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from llmserve.errors import LlmserveError
from llmserve.server.refusals import MethodNotAllowedError, RouteNotFoundError
from llmserve.server.web.bodies import Bodies
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.sse import StreamLimits

Serve = Callable[[Exchange], Awaitable[None]]

ANY_METHOD = "*"
"""The method of an endpoint that serves those which no other of its path does."""


@dataclass(frozen=True, slots=True)
class Content:
    """A response of one status: media type -> OpenAPI media type object."""

    description: str
    media: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method of a path, what serves it, and its OpenAPI description."""

    path: str
    """Starlette's notation: ``/v1/models/{model_id:path}``."""
    method: str
    serve: Serve
    operation_id: str
    summary: str
    description: str
    responses: Mapping[int, Content]
    body: type | None = None
    """The dataclass that the request's JSON object is read as."""
    needs_body: bool = True
    """Whether the body may not be empty."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the parameters of ``path`` are, for OpenAPI."""


class MethodTable:
    """The endpoints of one path, as an ASGI application. ``HEAD`` is served as ``GET``."""

    def __init__(self, endpoints: Iterable[Endpoint], limits: StreamLimits, bodies: Bodies) -> None:
        self._by_method = {endpoint.method: endpoint for endpoint in endpoints}
        self._limits = limits
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request.

        Raises:
            MethodNotAllowedError: The path has no such method.
        """
        method = scope["method"]
        endpoint = self._by_method.get("GET" if method == "HEAD" else method) or self._by_method.get(
            ANY_METHOD
        )
        if endpoint is None:
            allowed = [*self._by_method, *(["HEAD"] if "GET" in self._by_method else [])]
            raise MethodNotAllowedError(method, tuple(sorted(allowed)))
        exchange = Exchange(Request(scope, receive), send, self._limits, self._bodies)
        try:
            await endpoint.serve(exchange)
        except LlmserveError as error:
            named = exchange.named(error)
            if named is error:
                raise
            raise named from error


def build_router(endpoints: Iterable[Endpoint], limits: StreamLimits, bodies: Bodies) -> Router:
    """A router over all paths; unknown ones raise :class:`RouteNotFoundError`."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes: list[BaseRoute] = [
        Route(path, MethodTable(group, limits, bodies)) for path, group in by_path.items()
    ]
    return Router(routes, default=_not_found, redirect_slashes=False)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise RouteNotFoundError
