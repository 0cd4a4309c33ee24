"""JSON Schemas as callers give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from llmserve.errors import InvalidParameterError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["JsonSchema", "parsed", "schema_text"]

JsonSchema: TypeAlias = "str | bool | Mapping[str, Any] | type[BaseModel]"
"""A JSON Schema: its text, a boolean schema, a mapping, or a Pydantic model class."""


def schema_text(schema: JsonSchema) -> str:
    """The schema as JSON text; properties keep their order.

    Raises `InvalidParameterError` for anything but a schema. A text is passed on: the engine compiles it.
    """
    if isinstance(schema, str):
        return schema
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    if not isinstance(schema, Mapping | bool):
        kind = type(schema).__name__
        raise _invalid(f"must be a mapping, a text, a boolean or a Pydantic model class, got {kind}")
    try:
        return json.dumps(schema, default=_plain, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(f"is not valid JSON: {error}") from None


def parsed(schema: JsonSchema, text: str) -> Any:
    """The value of a document: an instance of the schema, where that is a Pydantic model class."""
    if isinstance(schema, type):
        return schema.model_validate_json(text)
    return json.loads(text)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def _invalid(reason: str) -> InvalidParameterError:
    return InvalidParameterError(reason, field="json_schema")
