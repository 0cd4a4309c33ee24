"""Readers of this dialect's fields that are more than one scalar."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from llmserve.server.refusals import FieldError, FieldTooLongError
from llmserve.server.web.schema import kind_of

MAX_PROMPT_BYTES = 4 << 20
MAX_REGEX_CHARS = 4096
MAX_EBNF_CHARS = 8192
MAX_BIASES = 1024
MAX_SEED = 2**63 - 1

_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")

SHARE_SCHEMA: Mapping[str, Any] = MappingProxyType({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
SECONDS_SCHEMA: Mapping[str, Any] = MappingProxyType({"type": "number", "exclusiveMinimum": 0})
SEED_SCHEMA: Mapping[str, Any] = MappingProxyType({"type": "integer", "format": "int64"})
STOP_TEXTS_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {"type": "array", "items": {"type": "string", "minLength": 1}}
)
LOGIT_BIAS_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "maxProperties": MAX_BIASES,
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    }
)


def read_prompt(value: Any, name: str) -> str:
    """A non-empty text within the limit."""
    text = _text(value, name)
    # The length in characters is the cheap bound.
    num_bytes = len(text) if len(text) > MAX_PROMPT_BYTES else len(text.encode())
    if num_bytes > MAX_PROMPT_BYTES:
        raise FieldTooLongError(name, MAX_PROMPT_BYTES)
    return text


def text_of_at_most(limit: int) -> Callable[[Any, str], str]:
    """A reader of a non-empty text of at most so many characters."""

    def read(value: Any, name: str) -> str:
        text = _text(value, name)
        if len(text) > limit:
            raise FieldError(name, f"must have at most {limit} characters, got {len(text)}")
        return text

    return read


def read_object(value: Any, name: str) -> dict[str, Any]:
    """An object of any kind."""
    if not isinstance(value, dict):
        raise FieldError(name, f"must be an object, got {kind_of(value)}")
    return value


def read_stop_texts(value: Any, name: str) -> tuple[str, ...]:
    """An array of non-empty strings."""
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array of strings, got {kind_of(value)}")
    return tuple(_text(item, f"{name}[{index}]") for index, item in enumerate(value))


def read_share(value: Any, name: str) -> float:
    """A number above 0, at most 1."""
    number = _number(value, name)
    if not 0 < number <= 1:
        raise FieldError(name, f"must be above 0 and at most 1, got {number}")
    return number


def read_seconds(value: Any, name: str) -> float:
    """A number above 0."""
    number = _number(value, name)
    if number <= 0:
        raise FieldError(name, f"must be above 0, got {number}")
    return number


def read_seed(value: Any, name: str) -> int:
    """A signed 64-bit integer."""
    # A fraction has lost digits long before 64 bits, so 5.0 is no seed.
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(name, f"must be an integer, got {kind_of(value)}")
    if not -MAX_SEED - 1 <= value <= MAX_SEED:
        raise FieldError(name, f"must be from {-MAX_SEED - 1} to {MAX_SEED}, got {value}")
    return value


def read_logit_bias(value: Any, name: str) -> dict[int, float]:
    """Token ids, as strings, with their biases."""
    entries = read_object(value, name)
    if len(entries) > MAX_BIASES:
        raise FieldError(name, f"must have at most {MAX_BIASES} entries, got {len(entries)}")
    biases: dict[int, float] = {}
    for key, item in entries.items():
        if _TOKEN_ID.fullmatch(key) is None or int(key) >= 2**31:
            raise FieldError(name, f"must have token ids as names, got {key[:32]!a}")
        bias = _number(item, f"{name}.{key}")
        if not -100 <= bias <= 100:
            raise FieldError(f"{name}.{key}", f"must be from -100 to 100, got {bias}")
        biases[int(key)] = bias
    return biases


def read_profile(value: Any, name: str) -> str:
    """The name of the only profile."""
    if value != "default":
        shown = f"{value[:32]!a}" if isinstance(value, str) else kind_of(value)
        raise FieldError(name, f"must be null or 'default', got {shown}")
    return "default"


def drop_text(value: Any, name: str) -> None:
    """Checks a text and keeps nothing of it, not even in the refusal."""
    if not isinstance(value, str):
        raise FieldError(name, "must be a string")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise FieldError(name, f"must be a string, got {kind_of(value)}")
    if not value:
        raise FieldError(name, "must not be empty")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, f"must be a number, got {kind_of(value)}")
    number = float(value)
    if not math.isfinite(number):
        raise FieldError(name, f"must be a finite number, got {number}")
    return number
