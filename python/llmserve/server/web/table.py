"""Finds the endpoint of a request."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from starlette.routing import compile_path
from starlette.types import Scope

from llmserve.server.refusals import MethodNotAllowedError, Refusal, RouteNotFoundError
from llmserve.server.web.endpoint import ANY_METHOD, Endpoint, Route
from llmserve.server.web.errors import PLAIN, Dialect
from llmserve.server.web.exchange import Exchange

UNKNOWN = "other"
"""The path that stands for all paths without an endpoint."""

_Methods = Mapping[str, Route]


class EndpointTable:
    """All routes by path and method. ``HEAD`` is served as ``GET``."""

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = {}
        dialects = {"": PLAIN}
        for route in routes:
            endpoint = route.endpoint
            by_path.setdefault(endpoint.path, {})[endpoint.method] = route
            dialects.setdefault(endpoint.dialect.root, endpoint.dialect)
        self._plain = {path: methods for path, methods in by_path.items() if "{" not in path}
        self._patterns = [
            (compile_path(path)[0], methods) for path, methods in by_path.items() if "{" in path
        ]
        # The longest root is the nearest.
        self._unknown = [(root, _unknown(dialects[root])) for root in sorted(dialects, key=len, reverse=True)]

    def find(self, scope: Scope) -> tuple[Route, Mapping[str, str]]:
        """The route of a request, and the parameters in its path.

        A path or method that nothing serves also has a route, which raises the refusal.
        """
        path = own_path(scope)
        # A proxy may leave the root path in the request, too.
        for candidate in dict.fromkeys((path, _without_root(path, scope))):
            if found := self._served(candidate, scope["method"]):
                return found
        return next(route for root, route in self._unknown if _is_below(path, root)), {}

    def _served(self, path: str, method: str) -> tuple[Route, Mapping[str, str]] | None:
        if (methods := self._plain.get(path)) is not None:
            return _route(methods, method), {}
        for pattern, methods in self._patterns:
            if match := pattern.match(path):
                return _route(methods, method), match.groupdict()
        return None


def own_path(scope: Scope) -> str:
    """The path without that under which this application is mounted: ASGI gives both as one."""
    return _without_root(scope["path"], scope)


def _without_root(path: str, scope: Scope) -> str:
    root = scope.get("root_path", "")
    return path.removeprefix(root) if _is_below(path, root) else path


def _is_below(path: str, root: str) -> bool:
    """Whether a path lies below a root, which ends at a segment; everything lies below an empty one."""
    return path.startswith(root) and (root == "" or root.endswith("/") or path[len(root) :][:1] in ("", "/"))


def _route(methods: _Methods, method: str) -> Route:
    route = methods.get("GET" if method == "HEAD" else method) or methods.get(ANY_METHOD)
    if route is not None:
        return route
    allowed = [*methods, *(["HEAD"] if "GET" in methods else [])]
    error = MethodNotAllowedError(method, tuple(sorted(allowed)))
    return Route(next(iter(methods.values())).endpoint, functools.partial(_refuse, error=error))


def _unknown(dialect: Dialect) -> Route:
    endpoint = Endpoint(path=UNKNOWN, method=ANY_METHOD, dialect=dialect)
    return Route(endpoint, functools.partial(_refuse, error=RouteNotFoundError()))


async def _refuse(exchange: Exchange, error: Refusal) -> None:
    raise error
