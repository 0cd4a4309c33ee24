"""The API key: without it, only ``/health`` answers."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from llmserve.api_keys import ApiKeys
from llmserve.http.headers import header
from llmserve.refusals import UnauthorizedError

_SCHEME = "bearer "


class ApiKeyMiddleware:
    """Wants ``Authorization: Bearer KEY`` or ``X-API-Key: KEY`` outside of ``always_open`` paths.

    It stands inside CORS, which answers preflights by itself.
    """

    def __init__(self, app: ASGIApp, keys: ApiKeys, always_open: Collection[str]) -> None:
        self._app = app
        self._keys = keys
        self._always_open = always_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if self._keys and not self._is_open(scope):
            given = candidates(scope)
            if not any(self._keys.authorize(candidate) for candidate in given):
                raise UnauthorizedError(was_given=any(candidate is not None for candidate in given))
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"].removeprefix(scope.get("root_path", "")) in self._always_open or is_preflight(
            scope
        )


def candidates(scope: Scope) -> tuple[str | None, str | None]:
    """What the headers ``Authorization`` (scheme Bearer) and ``X-API-Key`` give as the key."""
    authorization = header(scope, b"authorization")
    bearer = None
    if authorization is not None and authorization[: len(_SCHEME)].lower() == _SCHEME:
        bearer = authorization[len(_SCHEME) :].strip()
    return bearer, header(scope, b"x-api-key")


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks what a page may do (Fetch, section 3.3.2). It sends no keys with that."""
    return (
        scope["method"] == "OPTIONS"
        and header(scope, b"origin") is not None
        and header(scope, b"access-control-request-method") is not None
    )
