"""Readers of the fields that are more than one scalar."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of

Prompts: TypeAlias = tuple[str | list[int], ...]

OBJECT_SCHEMA: Mapping[str, Any] = MappingProxyType({"type": "object"})
OBJECTS_SCHEMA: Mapping[str, Any] = MappingProxyType({"type": "array", "items": {"type": "object"}})
LOGIT_BIAS_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}}
)
PROMPT_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        ]
    }
)

_MAX_BIAS = 100
_TOKEN_ID = re.compile(r"[0-9]{1,10}")


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


def read_logit_bias(value: Any, name: str) -> dict[int, float]:
    """Token ids and what is added to their logits: an object, or llama-server's pairs, where false bans."""
    if isinstance(value, list):
        return dict(_read_pair(item, f"{name}[{index}]") for index, item in enumerate(value))
    if not isinstance(value, dict):
        raise FieldError(name, f"must be an object, got {kind_of(value)}")
    biases = {}
    for key, bias in value.items():
        if not _TOKEN_ID.fullmatch(key):
            raise FieldError(name, f"must have token ids as keys, got {key[:32]!r}")
        biases[int(key)] = _read_bias(bias, f"{name}.{key}")
    return biases


def _read_pair(value: Any, name: str) -> tuple[int, float]:
    if not isinstance(value, list) or len(value) != 2 or type(value[0]) is not int:
        raise FieldError(name, "must be a token id and a number")
    if value[1] is False:
        return value[0], -math.inf
    return value[0], _read_bias(value[1], f"{name}[1]")


def _read_bias(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, f"must be a number, got {kind_of(value)}")
    if not -_MAX_BIAS <= value <= _MAX_BIAS:
        raise FieldError(name, f"must be from -{_MAX_BIAS} to {_MAX_BIAS}, got {value}")
    return float(value)


def read_prompts(value: Any, name: str) -> Prompts:
    """One prompt or several: texts or token ids."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise FieldError(name, f"must be a string or an array, got {kind_of(value)}")
    if not value:
        raise FieldError(name, "must not be empty")
    if type(value[0]) is int:
        return (read_token_ids(value, name),)
    return tuple(_read_prompt(item, f"{name}[{index}]") for index, item in enumerate(value))


def _read_prompt(value: Any, name: str) -> str | list[int]:
    return value if isinstance(value, str) else read_token_ids(value, name)


def read_token_ids(value: Any, name: str) -> list[int]:
    """An array of token ids."""
    if not isinstance(value, list):
        raise FieldError(name, f"must be a string or an array of token ids, got {kind_of(value)}")
    for index, item in enumerate(value):
        if type(item) is not int:
            raise FieldError(f"{name}[{index}]", f"must be a token id, got {kind_of(item)}")
        if not 0 <= item < 2**31:
            raise FieldError(f"{name}[{index}]", f"must be from 0 to {2**31 - 1}, got {item}")
    return value


TEXT_OR_OBJECTS_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}
)


def read_text_or_objects(value: Any, name: str) -> str | tuple[dict[str, Any], ...]:
    """A string, or an array of objects."""
    return value if isinstance(value, str) else read_objects(value, name)


def read_any(value: Any, name: str) -> Any:
    """A value that is looked at later."""
    return value
