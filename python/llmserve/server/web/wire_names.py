"""Errors of the engine with its fields as a client named them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from llmserve.errors import BudgetTooSmallError, InvalidParameterError, LoadError
from llmserve.server.web.fields import wire_name

E = TypeVar("E", bound=BaseException)


def in_wire_names(error: E, body: Any) -> E:
    """The error as one about the field of ``body`` (a request, or its class) that the engine's field is.

    The error itself where it is about no field, or about one that has the same name in both.
    """
    if not isinstance(error, InvalidParameterError | BudgetTooSmallError | LoadError) or not error.field:
        return error
    name = wire_name(body, error.field)
    return error if name == error.field else cast("E", error.named(name))
