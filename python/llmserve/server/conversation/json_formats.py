"""JSON Schemas that clients ask for, and the response formats that contain them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of, shown


def json_schema_of(response_format: Mapping[str, Any] | None, field: str = "response_format") -> str | None:
    """The JSON Schema, as text, that a response format asks for; `None` for free text.

    Raises:
        FieldError: The value is not a response format.
    """
    if response_format is None:
        return None
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return _object_schema(response_format.get("schema", True), f"{field}.schema")
    if kind == "json_schema":
        return _inner_schema(response_format, field)
    raise FieldError(f"{field}.type", f"must be text, json_object or json_schema, got {shown(kind)}")


def _object_schema(schema: Any, field: str) -> str:
    """llama-server takes a schema beside `json_object`; the document is an object whatever it says."""
    if schema is True:
        schema = {}
    return schema_text({"type": "object", **schema} if isinstance(schema, dict) else schema, field)


def _inner_schema(response_format: Mapping[str, Any], field: str) -> str:
    inner = response_format.get("json_schema")
    if inner is None:
        raise FieldError(f"{field}.json_schema", "is required")
    if not isinstance(inner, dict):
        raise FieldError(f"{field}.json_schema", f"must be an object, got {kind_of(inner)}")
    if inner.get("schema") is None:
        raise FieldError(f"{field}.json_schema.schema", "is required")
    return schema_text(inner["schema"], f"{field}.json_schema.schema")


def schema_text(schema: Any, field: str) -> str:
    """A schema as text; its properties keep their order."""
    if not isinstance(schema, dict | bool):
        raise FieldError(field, f"must be an object, got {kind_of(schema)}")
    return orjson.dumps(schema).decode()
