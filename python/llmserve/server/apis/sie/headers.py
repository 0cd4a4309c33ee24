"""Headers of the SIE dialect: those that a request may have, and those that every answer has."""

from __future__ import annotations

import re

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.errors import RawHeaders
from llmserve.server.web.headers import header
from llmserve.server.web.request_id import current_request_id
from llmserve.version import version

_REMOTE = "X-SIE-Remote"
_MACHINE_PROFILE = "X-SIE-MACHINE-PROFILE"
# Not a bare number, which the client would compare with its own version and warn about.
_VERSION = f"llmserve-{version()}".encode()
_PROFILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_headers(scope: Scope) -> None:
    """Checks the headers of a request. None of them has an effect: there are no other machines.

    Raises:
        FieldError: A header has a value that the dialect does not know.
    """
    remote = header(scope, _REMOTE.lower().encode())
    if remote is not None and remote != "forbid":
        raise FieldError(_REMOTE, f"must be 'forbid', got {remote[:32]!a}")
    profile = header(scope, _MACHINE_PROFILE.lower().encode())
    if profile is not None and _PROFILE_NAME.fullmatch(profile) is None:
        raise FieldError(_MACHINE_PROFILE, f"must be 1 to 64 of A-Z a-z 0-9 . _ -, got {profile[:64]!a}")


def answer_headers() -> RawHeaders:
    """The headers of every answer."""
    return [(b"x-sie-request-id", current_request_id().encode()), (b"x-sie-server-version", _VERSION)]
