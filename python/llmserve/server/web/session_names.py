"""Names of sessions, as clients give them."""

from __future__ import annotations

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.names import Names
from llmserve.server.web.parameters import Parameter

_NAMES = Names(128)

SESSION: Parameter[str, None] = Parameter(
    name="X-LLMServe-Session",
    place="header",
    doc="The session that the request belongs to. It begins with its first request.",
    read=_NAMES.check,
    default=None,
    schema=_NAMES.schema,
)


def session_of(scope: Scope, given: str | None, field: str) -> str | None:
    """The name that a field or the header gives, or ``None``.

    Raises:
        FieldError: A name is not valid, or both are given and differ.
    """
    in_header = SESSION.of(scope)
    if given is None:
        return in_header
    _NAMES.check(given, field)
    if in_header is not None and in_header != given:
        raise FieldError(field, f"must equal the name in the header {SESSION.name} if both are given")
    return given


def slot_session(number: int) -> str:
    """The name of the session that stands for one of llama-server's slots."""
    return f"slot-{number}"
