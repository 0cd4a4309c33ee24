"""JSON Schemas that clients ask for."""

from __future__ import annotations

from typing import Any

import orjson

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of


def schema_text(schema: Any, field: str) -> str:
    """A schema as text; its properties keep their order."""
    if not isinstance(schema, dict | bool):
        raise FieldError(field, f"must be an object, got {kind_of(schema)}")
    return orjson.dumps(schema).decode()


def from_text(value: Any, field: str) -> Any:
    """What a client may send as an object or as its text.

    Raises:
        FieldError: The text is not JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise FieldError(field, f"is not valid JSON: {error}") from None
