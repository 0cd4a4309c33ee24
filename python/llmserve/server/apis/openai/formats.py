"""Response formats: OpenAI's, and those of llama-server, vLLM, TGI, Together and Fireworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.conversation.json_formats import from_text, schema_text
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of, shown

_JSON_SCHEMA, _SCHEMA = "json_schema", "schema"
_TAG = ("format", "structures", "triggers")

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": (),
    "json_object": (_SCHEMA, _JSON_SCHEMA, "value"),
    "json_schema": (_JSON_SCHEMA, _SCHEMA),
    "regex": ("pattern", "regex", "value"),
    "grammar": ("grammar", "value"),
    "structural_tag": _TAG,
    "json": (_SCHEMA, "value"),
}
"""The fields of each type that say what the output must be, the usual one first."""

_KNOWN = ("text", "json_object", "json_schema", "regex", "grammar", "structural_tag")
_CONSTRAINTS = (*dict.fromkeys(name for names in _FIELDS.values() for name in names), "choice", "ebnf")


def kind_of_format(given: Mapping[str, Any], field: str) -> str:
    """The type of a response format, with whose fields it agrees.

    Raises:
        FieldError: It has no known type, fields of another type, or two constraints.
    """
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        known = f"{', '.join(_KNOWN[:-1])} or {_KNOWN[-1]}"
        raise FieldError(f"{field}.type", f"must be {known}, got {shown(kind)}")
    for name in _CONSTRAINTS:
        if name not in _FIELDS[kind] and given.get(name) is not None:
            raise FieldError(f"{field}.{name}", f"does not belong to the type {kind}")
    names = [name for name in _FIELDS[kind] if given.get(name) is not None]
    if len(names) > 1 and kind != "structural_tag":
        raise FieldError(f"{field}.{names[1]}", f"cannot be used with {field}.{names[0]}: choose one")
    return kind


def text_field(given: Mapping[str, Any]) -> str:
    """The field of a format of the type `regex` or `grammar` that has the text."""
    names = _FIELDS[given["type"]]
    return next((name for name in names if given.get(name) is not None), names[0])


def inner_field(given: Mapping[str, Any]) -> str:
    """Where in a format its text lies; empty if it has none."""
    return f".{text_field(given)}" if given.get("type") in ("regex", "grammar") else ""


def format_text(given: Mapping[str, Any], field: str) -> str:
    """The text of a format of the type `regex` or `grammar`.

    Raises:
        FieldError: It has none.
    """
    name = text_field(given)
    if (text := given.get(name)) is None:
        raise FieldError(f"{field}.{name}", "is required")
    if not isinstance(text, str) or not text:
        raise FieldError(f"{field}.{name}", f"must be a text that is not empty, got {kind_of(text)}")
    return text


def format_schema(given: Mapping[str, Any], field: str, *, is_flat: bool = False) -> str:
    """The JSON Schema, as text, of a format that asks for JSON.

    `is_flat` says whether the type `json_schema` has its schema beside it, as in `/v1/responses`.

    Raises:
        FieldError: It has no schema, and its type asks for one, or the schema is none.
    """
    place, schema = _schema(given, field, is_flat=is_flat)
    if given["type"] != "json_object":
        return schema_text(schema, place)
    # The document is an object whatever the schema says.
    if schema is None or schema is True:
        schema = {}
    return schema_text({"type": "object", **schema} if isinstance(schema, dict) else schema, place)


def _schema(given: Mapping[str, Any], field: str, *, is_flat: bool) -> tuple[str, Any]:
    kind = given["type"]
    if (inner := given.get(_JSON_SCHEMA)) is not None:
        place = f"{field}.{_JSON_SCHEMA}"
        if not isinstance(inner, dict):
            raise FieldError(place, f"must be an object, got {kind_of(inner)}")
        if inner.get(_SCHEMA) is None:
            raise FieldError(f"{place}.{_SCHEMA}", "is required")
        return f"{place}.{_SCHEMA}", inner[_SCHEMA]
    for name in (_SCHEMA, "value"):
        if given.get(name) is not None:
            return f"{field}.{name}", from_text(given[name], f"{field}.{name}")
    if kind == "json_object":
        return f"{field}.{_SCHEMA}", None
    if kind == "json":
        return f"{field}.{_SCHEMA}", {"type": "object"}
    raise FieldError(f"{field}.{_SCHEMA if is_flat else _JSON_SCHEMA}", "is required")
