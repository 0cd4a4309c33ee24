"""What a request of the SIE dialect may say in its headers."""

from __future__ import annotations

from llmserve.server.refusals import FieldError
from llmserve.server.web.names import Names
from llmserve.server.web.parameters import Parameter

_PROFILES = Names(64)


def _read_remote(text: str, name: str) -> str:
    if text != "forbid":
        raise FieldError(name, f"must be 'forbid', got {text[:32]!a}")
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
    read=_PROFILES.check,
    default=None,
    schema=_PROFILES.schema,
)

HEADERS = (_REMOTE, _MACHINE_PROFILE)
"""Those that are checked and have no effect."""
