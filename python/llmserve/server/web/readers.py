"""Readers of fields that are more than one scalar, for :class:`llmserve.server.web.schema.Field`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of

TEXTS_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)


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


TEXT_OR_OBJECT_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"anyOf": [{"type": "string"}, {"type": "object"}]}
)


def read_text_or_object(value: Any, name: str) -> str | dict[str, Any]:
    """A string, or an object of any kind."""
    if not isinstance(value, str | dict):
        raise FieldError(name, f"must be a string or an object, got {kind_of(value)}")
    return value


MESSAGES_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"type": "string"}, "content": {}},
        },
    }
)


def read_messages(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    """Chat messages: objects with a ``role``. What else they need is their template's to say."""
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array, got {kind_of(value)}")
    if not value:
        raise FieldError(name, "must have at least one message, got none")
    for index, message in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(message, dict):
            raise FieldError(where, f"must be an object, got {kind_of(message)}")
        role = message.get("role")
        if role is None:
            raise FieldError(f"{where}.role", "is required")
        if not isinstance(role, str):
            raise FieldError(f"{where}.role", f"must be a string, got {kind_of(role)}")
        _check_content(message.get("content"), f"{where}.content")
    return tuple(value)


def _check_content(content: Any, name: str) -> None:
    if content is not None and not isinstance(content, str | list):
        raise FieldError(name, f"must be a string, an array of parts or null, got {kind_of(content)}")
