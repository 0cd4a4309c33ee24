"""What a request of the SIE dialect may say in its headers."""

from __future__ import annotations

import re

from llmserve.server.refusals import FieldError
from llmserve.server.web.parameters import Parameter

_PROFILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def _read_remote(text: str, name: str) -> str:
    if text != "forbid":
        raise FieldError(name, f"must be 'forbid', got {text[:32]!a}")
    return text


def _read_profile(text: str, name: str) -> str:
    if _PROFILE_NAME.fullmatch(text) is None:
        raise FieldError(name, f"must be 1 to 64 of A-Z a-z 0-9 . _ -, got {text[:64]!a}")
    return text


_REMOTE: Parameter[str, None] = Parameter(
    name="X-SIE-Remote",
    place="header",
    doc="Has no effect: there are no other machines.",
    read=_read_remote,
    default=None,
    schema={"type": "string", "enum": ["forbid"]},
)
_MACHINE_PROFILE: Parameter[str, None] = Parameter(
    name="X-SIE-MACHINE-PROFILE",
    place="header",
    doc="Has no effect: there are no other machines.",
    read=_read_profile,
    default=None,
    schema={"type": "string", "pattern": f"^{_PROFILE_NAME.pattern}$"},
)

HEADERS = (_REMOTE, _MACHINE_PROFILE)
"""Those that are checked and have no effect."""
