"""What a request of the SIE dialect may say in its headers."""

from __future__ import annotations

import re

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.headers import header

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
