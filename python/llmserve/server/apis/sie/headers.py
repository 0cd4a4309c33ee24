"""Headers of the SIE dialect: what a request may say in them, and what every answer has."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmserve.server.apis.sie.errors import PREFIXES
from llmserve.server.refusals import FieldError
from llmserve.server.web.headers import header, route_path
from llmserve.server.web.request_id import current_request_id
from llmserve.version import version

_REMOTE = "X-SIE-Remote"
_MACHINE_PROFILE = "X-SIE-MACHINE-PROFILE"
_PROFILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_headers(scope: Scope) -> None:
    """Checks the headers of a request. None of them has an effect: there are no other machines.

    Raises:
        FieldError: One has a value that the dialect does not know.
    """
    remote = header(scope, _REMOTE.lower().encode())
    if remote is not None and remote != "forbid":
        raise FieldError(_REMOTE, f"must be 'forbid', got {remote[:32]!a}")
    profile = header(scope, _MACHINE_PROFILE.lower().encode())
    if profile is not None and _PROFILE_NAME.fullmatch(profile) is None:
        raise FieldError(_MACHINE_PROFILE, f"must be 1 to 64 of A-Z a-z 0-9 . _ -, got {profile[:64]!a}")


class AnswerHeadersMiddleware:
    """Adds ``X-SIE-Request-ID`` and ``X-SIE-Server-Version`` to all answers under the dialect's paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Not a bare number: the client compares such a one with its own version and warns.
        self._version = f"llmserve-{version()}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        path: str = route_path(scope)
        if not path.startswith(PREFIXES):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-sie-request-id", current_request_id().encode()),
                    (b"x-sie-server-version", self._version),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)
