"""The kinds of fields that are more than a scalar, and that several dialects have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Kind
from llmserve.server.web.schema import kind_of, shown


def unchecked(schema: Mapping[str, Any]) -> Kind:
    """A value that is checked later."""
    return Kind(lambda value, name: value, schema)


def read_object(value: Any, name: str) -> dict[str, Any]:
    """An object of any kind."""
    if not isinstance(value, dict):
        raise FieldError(name, f"must be an object, got {kind_of(value)}")
    return value


def read_objects(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    """An array of objects."""
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array, got {kind_of(value)}")
    return tuple(read_object(item, f"{name}[{index}]") for index, item in enumerate(value))


def read_text(value: Any, name: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str):
        raise FieldError(name, f"must be a string, got {kind_of(value)}")
    if not value:
        raise FieldError(name, "must not be empty")
    return value


def text_in(value: Mapping[str, Any], name: str, where: str) -> str:
    """The text of a required field of the object at `where`, which may be empty.

    Raises:
        FieldError: It is missing, or not a text.
    """
    text = value.get(name)
    if text is None:
        raise FieldError(f"{where}.{name}", "is required")
    if not isinstance(text, str):
        raise FieldError(f"{where}.{name}", f"must be a string, got {kind_of(text)}")
    return text


def read_texts(value: Any, name: str) -> tuple[str, ...]:
    """A string, or an array of strings."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise FieldError(name, f"must be a string or an array of strings, got {kind_of(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise FieldError(f"{name}[{index}]", f"must be a string, got {kind_of(item)}")
    return tuple(value)


def _read_text_array(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array of strings, got {kind_of(value)}")
    return tuple(read_text(item, f"{name}[{index}]") for index, item in enumerate(value))


def _read_text_or_object(value: Any, name: str) -> str | dict[str, Any]:
    if not isinstance(value, str | dict):
        raise FieldError(name, f"must be a string or an object, got {kind_of(value)}")
    return value


def _read_object_or_text(value: Any, name: str) -> Any:
    # A boolean is a JSON Schema, too.
    if not isinstance(value, str | dict | bool):
        raise FieldError(name, f"must be an object or its text, got {kind_of(value)}")
    return value


def text_of_at_most(limit: int) -> Kind:
    """A text of 1 to ``limit`` characters."""

    def read(value: Any, name: str) -> str:
        text = read_text(value, name)
        if len(text) > limit:
            raise FieldError(name, f"must have at most {limit} characters, got {len(text)}", limit=limit)
        return text

    return Kind(read, {"type": "string", "minLength": 1, "maxLength": limit})


def one_of(*names: str) -> Kind:
    """One of a few names."""
    words = " or ".join(repr(name) for name in names)

    def read(value: Any, name: str) -> str:
        if value not in names:
            raise FieldError(name, f"must be {words}, got {shown(value)}")
        return str(value)

    return Kind(read, {"type": "string", "enum": list(names)})


OBJECT = Kind(read_object, {"type": "object"})
OBJECTS = Kind(read_objects, {"type": "array", "items": {"type": "object"}})
TEXTS = Kind(read_texts, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
TEXT_ARRAY = Kind(_read_text_array, {"type": "array", "items": {"type": "string", "minLength": 1}})
OBJECT_OR_TEXT = Kind(
    _read_object_or_text, {"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "boolean"}]}
)
"""A JSON Schema, or its text."""
TEXT_OR_OBJECT = Kind(_read_text_or_object, {"anyOf": [{"type": "string"}, {"type": "object"}]})
TEXT_OR_OBJECTS = Kind(
    lambda value, name: value if isinstance(value, str) else read_objects(value, name),
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
)


def _read_messages(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    """Messages need a role; the rest is up to their template."""
    messages = read_objects(value, name)
    if not messages:
        raise FieldError(name, "must have at least one message, got none", limit=1)
    for index, message in enumerate(messages):
        where = f"{name}[{index}]"
        role = message.get("role")
        if role is None:
            raise FieldError(f"{where}.role", "is required")
        if not isinstance(role, str):
            raise FieldError(f"{where}.role", f"must be a string, got {kind_of(role)}")
        _check_content(message.get("content"), f"{where}.content")
    return messages


def _check_content(content: Any, name: str) -> None:
    if content is not None and not isinstance(content, str | list):
        raise FieldError(name, f"must be a string, an array of parts or null, got {kind_of(content)}")


MESSAGES = Kind(
    _read_messages,
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"type": "string"}, "content": {}},
        },
    },
)
"""Chat messages."""
