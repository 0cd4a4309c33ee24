"""Lists of models as Anthropic's clients read them, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.parameters import Parameter, as_it_is, integer_in_query
from llmserve.server.web.schema import shown

VERSION: Parameter[str, None] = Parameter(
    name="anthropic-version",
    place="header",
    doc="Any version: the answer is in the shape of Anthropic's API.",
    read=as_it_is,
    default=None,
)
_LIMIT = integer_in_query("limit", 1, 1000, 20, "With `anthropic-version`: how many models to give.")


def _id(name: str, doc: str) -> Parameter[str, None]:
    return Parameter(
        name=name, place="query", doc=f"With `anthropic-version`: {doc}", read=as_it_is, default=None
    )


_AFTER = _id("after_id", "the id of the model to begin behind.")
_BEFORE = _id("before_id", "the id of the model to end before.")

PAGE: tuple[Parameter[Any, Any], ...] = (_LIMIT, _AFTER, _BEFORE)
"""The parameters of a page."""


def page_of(models: Sequence[dict[str, Any]], scope: Scope) -> dict[str, Any]:
    """The page that a request asks for; `has_more` is about the direction in which it pages.

    Raises:
        FieldError: There is no such page.
    """
    limit, after, before = _LIMIT.of(scope), _AFTER.of(scope), _BEFORE.of(scope)
    if after is not None and before is not None:
        raise FieldError("before_id", "cannot be used with after_id: choose one")
    if before is not None:
        rest = models[: _index(models, before, "before_id")]
        page = rest[-limit:]
    else:
        rest = models if after is None else models[_index(models, after, "after_id") + 1 :]
        page = rest[:limit]
    return {
        "data": page,
        "has_more": len(page) < len(rest),
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }


def _index(models: Sequence[dict[str, Any]], model_id: str, field: str) -> int:
    for index, model in enumerate(models):
        if model["id"] == model_id:
            return index
    raise FieldError(field, f"must be the id of a model, got {shown(model_id)}")
