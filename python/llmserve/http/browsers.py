"""Protection of servers on loopback from web pages: DNS rebinding, and pages that post to local ports."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from llmserve.addresses import host_of, is_loopback_name, is_loopback_server
from llmserve.http.headers import header
from llmserve.refusals import ForeignHostError, ForeignOriginError


class BrowserMiddleware:
    """On loopback, takes only loopback names in ``Host`` and only allowed origins.

    A client that sends no ``Host`` at all (HTTP/1.0) is no browser and passes.
    """

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str]) -> None:
        self._app = app
        self._allowed_origins = allowed_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if is_loopback_server(scope):
            host = header(scope, b"host")
            if host is not None and not is_loopback_name(host_of(host)):
                raise ForeignHostError
            origin = header(scope, b"origin")
            if origin is not None and not self._is_allowed(origin, host):
                raise ForeignOriginError
        await self._app(scope, receive, send)

    def _is_allowed(self, origin: str, host: str | None) -> bool:
        if "*" in self._allowed_origins or origin in self._allowed_origins:
            return True
        if host is None:
            return False
        own = host.lower()
        return origin.lower() in (f"http://{own}", f"https://{own}")
