"""JSON Schema of typed bodies, for OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.web.fields import Property, properties

_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
_KEYWORDS = {"format": "format", "minimum": "minimum", "maximum": "maximum", "above": "exclusiveMinimum"}


def json_schema(cls: type) -> dict[str, Any]:
    """The schema of a body. Nested objects are references by class name."""
    fields = {prop.name: _property_schema(prop) for prop in properties(cls)}
    schema: dict[str, Any] = {"type": "object", "description": _summary(cls), "properties": fields}
    if required := [prop.name for prop in properties(cls) if prop.required]:
        schema["required"] = required
    return schema


def nested(cls: type) -> list[type]:
    """The classes of nested objects, all levels down."""
    found: list[type] = []
    for prop in properties(cls):
        if prop.nested_type is not None:
            found += [prop.nested_type, *nested(prop.nested_type)]
    return found


def _property_schema(prop: Property) -> dict[str, Any]:
    field = prop.field
    if prop.nested_type is not None:
        return {"$ref": f"#/components/schemas/{prop.nested_type.__name__}", "description": field.doc}
    kind = {"type": _JSON_TYPES[prop.type]} if field.kind is None else field.kind.schema
    schema: dict[str, Any] = {**kind, "description": field.doc}
    if prop.default is not None:
        schema["default"] = prop.default
    for attribute, keyword in _KEYWORDS.items():
        if (value := getattr(field, attribute)) is not None:
            schema[keyword] = value
    if field.example is not None:
        schema["examples"] = [field.example]
    if field.non_empty:
        schema["minLength"] = 1
    return schema


def _summary(cls: type) -> str:
    return " ".join((cls.__doc__ or cls.__name__).split())
