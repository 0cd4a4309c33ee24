"""Names of sessions, as clients give them."""

from __future__ import annotations

import re

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.parameters import Parameter

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_name(name: str, field: str) -> str:
    """The name, if it is valid.

    Raises:
        FieldError: The text is not a valid session name.
    """
    if _NAME.fullmatch(name) is None:
        raise FieldError(field, f"must be 1 to 128 of A-Z a-z 0-9 . _ -, got {name[:32]!a}")
    return name


SESSION: Parameter[str, None] = Parameter(
    name="X-LLMServe-Session",
    place="header",
    doc="The session that the request belongs to. It begins with its first request.",
    read=check_name,
    default=None,
    schema={"type": "string", "pattern": f"^{_NAME.pattern}$"},
)


def session_of(scope: Scope, given: str | None, field: str) -> str | None:
    """The name that a field or the header gives, or ``None``.

    Raises:
        FieldError: A name is not valid, or both are given and differ.
    """
    in_header = SESSION.of(scope)
    if given is None:
        return in_header
    check_name(given, field)
    if in_header is not None and in_header != given:
        raise FieldError(field, f"must equal the name in the header {SESSION.name} if both are given")
    return given
