"""The one gate before the routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

Rule = Callable[[Scope], None]
"""Raises the refusal of a request that may not pass."""

FORBIDDEN = "The request came from a page of another site, or under a host name that is not allowed."
"""What the gate's 403 means, for the OpenAPI document."""


class GateMiddleware:
    """Serves a request once every rule has let it pass; the first one that does not decides the answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[Rule]) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        for rule in self._rules:
            rule(scope)
        await self._app(scope, receive, send)
