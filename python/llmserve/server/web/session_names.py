"""Names of sessions, as clients give them."""

from __future__ import annotations

import re

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.headers import header

HEADER = "X-LLMServe-Session"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


def header_session(scope: Scope) -> str | None:
    """The name in the header ``X-LLMServe-Session``, or ``None``.

    Raises:
        FieldError: The value is not a valid session name.
    """
    name = header(scope, HEADER.lower().encode())
    return None if name is None else check_name(name, HEADER)


def check_name(name: str, field: str) -> str:
    """The name, if it is valid.

    Raises:
        FieldError: The text is not a valid session name.
    """
    if _NAME.fullmatch(name) is None:
        raise FieldError(field, f"must be 1 to 128 of A-Z a-z 0-9 . _ -, got {name[:32]!a}")
    return name


def session_of(scope: Scope, given: str | None, field: str) -> str | None:
    """The name that a field or the header gives, or ``None``.

    Raises:
        FieldError: A name is not valid, or both are given and differ.
    """
    in_header = header_session(scope)
    if given is None:
        return in_header
    check_name(given, field)
    if in_header is not None and in_header != given:
        raise FieldError(field, f"must equal the name in the header {HEADER} if both are given")
    return given
