"""Which requests must carry an API key, if the operator set any."""

from __future__ import annotations

from typing import Literal

from starlette.types import Scope

from llmserve.server.api_keys import ApiKeys
from llmserve.server.refusals import UnauthorizedError
from llmserve.server.trust.local import is_local
from llmserve.server.web.headers import header

Access = Literal["key", "local", "open"]
"""Who needs a key, if the operator set any: everybody, all but local requests, or nobody."""

_SCHEME = "bearer "


class KeyRule:
    """Requires ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``.

    The rule stands behind CORS, which answers preflights by itself.
    """

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    def __call__(self, scope: Scope, access: Access) -> None:
        """Checks one request.

        Raises:
            UnauthorizedError: The request needs a key, and has none or a wrong one.
        """
        if self._keys and not self._is_open(scope, access):
            authorize(self._keys, scope)

    def _is_open(self, scope: Scope, access: Access) -> bool:
        return access == "open" or is_preflight(scope) or (access == "local" and is_local(scope))


def authorize(keys: ApiKeys, scope: Scope) -> None:
    """Takes the key from the headers ``Authorization`` (scheme Bearer) and ``X-API-Key``.

    Raises:
        UnauthorizedError: Neither has a valid key.
    """
    given = _given(scope)
    # Both are always checked, so that the time reveals nothing.
    are_right = [keys.authorize(candidate) for candidate in given]
    if not any(are_right):
        raise UnauthorizedError(was_given=any(candidate is not None for candidate in given))


def owner_of(keys: ApiKeys, scope: Scope) -> bytes:
    """Whose a request is that may pass: all requests with one key have the same owner."""
    return keys.owner(_given(scope))


def _given(scope: Scope) -> tuple[str | None, str | None]:
    """The keys that a request has."""
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
