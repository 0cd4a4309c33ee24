"""Refuses new requests while the server drains, and counts the open ones."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import ServerDrainingError
from llmserve.server.web.headers import route_path
from llmserve.server.web.sse import ClientStalledError


class DrainMiddleware:
    """Serves only ``always_open`` paths once the server drains."""

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle, always_open: Collection[str]) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._always_open = always_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        is_open = route_path(scope) in self._always_open
        if not self._lifecycle.is_serving and not is_open:
            raise ServerDrainingError
        with self._lifecycle.exchange():
            try:
                await self._app(scope, receive, send)
            except asyncio.CancelledError:
                if not self._lifecycle.is_stopping:
                    raise
                # What was to be said has been said: the server gives up on a client that does not read it.
                raise ClientStalledError from None
