"""Counts HTTP requests by route, method and status."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmserve.server.web.headers import route_path

CLIENT_LEFT = 499
"""Stands for the status of a request whose client left before the answer began."""


class HttpCounters:
    """Counters of the process; they only grow, but for ``num_open``."""

    def __init__(self) -> None:
        self.num_open = 0
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Time from a request's head to the end of its answer, by route."""
        self.late_errors: Counter[int] = Counter()
        """Errors of answers that had begun, by the status that they would have had."""


class RouteLabels:
    """Which of the known routes a path is of. Unknown ones share one label, so labels are bounded."""

    def __init__(self, routes: Iterable[str]) -> None:
        routes = list(dict.fromkeys(routes))
        self._plain = frozenset(route for route in routes if "{" not in route)
        compiled = [compile_path(route) for route in routes if "{" in route]
        self._patterns = [(pattern, label) for pattern, label, _ in compiled]

    def of(self, path: str) -> str:
        """The route, as ``/v1/models/{model_id}``."""
        if path in self._plain:
            return path
        return next((label for pattern, label in self._patterns if pattern.match(path)), "other")


class CountMiddleware:
    """Feeds :class:`HttpCounters`. Unknown methods share one label."""

    def __init__(self, app: ASGIApp, counters: HttpCounters, routes: RouteLabels) -> None:
        self._app = app
        self._counters = counters
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        status = CLIENT_LEFT

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path = route_path(scope)
        route = self._routes.of(path)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "other"
        started = time.monotonic()
        self._counters.num_open += 1
        try:
            await self._app(scope, receive, send_counted)
        finally:
            self._counters.num_open -= 1
            self._counters.requests[route, method, status] += 1
            self._counters.seconds[route] += time.monotonic() - started
