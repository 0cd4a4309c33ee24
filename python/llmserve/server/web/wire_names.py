"""Errors of the engine, with fields as a client named them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from llmserve.errors import BudgetTooSmallError, EmptyPromptError, InvalidParameterError, LoadError
from llmserve.server.web.fields import wire_name

E = TypeVar("E", bound=BaseException)

_LIMIT = "max_tokens ("
"""How the engine names the limit that another field is compared with."""

_NAMED = (BudgetTooSmallError, EmptyPromptError, InvalidParameterError, LoadError)


def in_wire_names(error: E, body: Any) -> E:
    """The error, naming the field of ``body`` (a request, or its class) that sets the engine's field.

    The error is returned unchanged if it names no field, or one that has the same name in both.
    """
    if not isinstance(error, _NAMED) or not error.field:
        return error
    name = wire_name(body, error.field)
    if isinstance(error, InvalidParameterError) and _LIMIT in error.reason:
        reason = error.reason.replace(_LIMIT, f"{wire_name(body, 'max_tokens')} (")
        return cast("E", InvalidParameterError(reason, field=name, limit=error.limit, code=error.code))
    return error if name == error.field else cast("E", error.named(name))
