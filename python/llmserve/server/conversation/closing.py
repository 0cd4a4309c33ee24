"""Restricts generated objects to the properties that their schema names.

A schema without `additionalProperties` allows any others, and small models add them until the tokens are
gone. A document without them matches the schema all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Beside these keywords, another schema may name an object's properties.
_OPENS = frozenset(
    {
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "minProperties",
        "$ref",
        "$dynamicRef",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "dependentSchemas",
    }
)
_SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties"})


def closed(schema: Any) -> Any:
    """The schema with objects that have only the properties it names, where that loses no document.

    A schema that combines several (`allOf`) stays unchanged: a part may name properties that others do not.
    """
    return schema if _has_all_of(schema) else _closed(schema)


def _has_all_of(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "allOf" in value or any(_has_all_of(item) for item in value.values())
    return isinstance(value, list) and any(_has_all_of(item) for item in value)


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    properties = schema.get("properties")
    has_properties = isinstance(properties, Mapping)
    made = {key: _part(key, value, inside=has_properties) for key, value in schema.items()}
    if isinstance(properties, Mapping) and _OPENS.isdisjoint(schema) and _names_all(schema, properties):
        made["additionalProperties"] = False
    return made


def _part(key: str, value: Any, *, inside: bool) -> Any:
    if key in _SCHEMA_MAPS and isinstance(value, Mapping):
        return {name: _closed(item) for name, item in value.items()}
    if key in _SCHEMA_LISTS and isinstance(value, list) and not inside:
        return [_closed(item) for item in value]
    return _closed(value) if key in _SCHEMAS else value


def _names_all(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> bool:
    required = schema.get("required", [])
    return isinstance(required, list) and all(isinstance(n, str) and n in properties for n in required)
