"""Pages of items, as lists of OpenAI's API give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.parameters import Parameter, as_it_is, choice_in_query, integer_in_query
from llmserve.server.web.schema import shown

_LIMIT = integer_in_query("limit", 1, 100, 20, "How many items to give.")
_ORDER = choice_in_query("order", ("desc", "asc"), "`desc` begins with the last item.")
_AFTER: Parameter[str, None] = Parameter(
    name="after", place="query", doc="The id of the item to begin behind.", read=as_it_is, default=None
)

PAGE: tuple[Parameter[Any, Any], ...] = (_AFTER, _LIMIT, _ORDER)
"""The parameters of a page."""


def page_of(items: Sequence[dict[str, Any]], scope: Scope) -> dict[str, Any]:
    """The page that a request asks for.

    Raises:
        FieldError: There is no such page.
    """
    ordered = list(items) if _ORDER.of(scope) == "asc" else list(reversed(items))
    begin, after = 0, _AFTER.of(scope)
    if after is not None:
        found = [index for index, item in enumerate(ordered) if item["id"] == after]
        if not found:
            raise FieldError("after", f"must be the id of an item, got {shown(after)}")
        begin = found[0] + 1
    end = begin + _LIMIT.of(scope)
    return list_of(ordered[begin:end], has_more=end < len(ordered))


def list_of(items: Sequence[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    """A list of items."""
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
