"""The kinds of fields that only Ollama has: formats, levels of thinking, and how long a model is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from llmserve.server.conversation.json_formats import schema_text
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Kind
from llmserve.server.web.schema import kind_of, shown

LEVELS = ("low", "medium", "high", "max")

_ANY_OBJECT = '{"type":"object"}'
_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)?")
_DURATION = re.compile(rf"(-?)((?:{_PART.pattern})+)")


def _read_format(value: Any, name: str) -> str | None:
    """A JSON Schema as text; `None` for free text."""
    if value == "":
        return None
    if value == "json":
        return _ANY_OBJECT
    if not isinstance(value, dict):
        raise FieldError(name, f'must be "json" or a JSON Schema, got {shown(value)}')
    return schema_text(value, name)


FORMAT = Kind(_read_format, {"anyOf": [{"enum": ["", "json"]}, {"type": "object"}]})


def _read_think(value: Any, name: str) -> bool | str:
    if not isinstance(value, bool) and value not in LEVELS:
        raise FieldError(name, f"must be a boolean, {', '.join(LEVELS[:-1])} or max, got {shown(value)}")
    return value if isinstance(value, bool) else str(value)


THINK = Kind(_read_think, {"anyOf": [{"type": "boolean"}, {"enum": list(LEVELS)}]})


def _read_keep_alive(value: Any, name: str) -> float:
    """Seconds; infinite for ever."""
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = _seconds(value)
    if seconds is None or math.isnan(seconds):
        raise FieldError(name, f'must be seconds, or a duration such as "5m", got {_given(value)}')
    return math.inf if seconds < 0 else seconds


def _seconds(text: str) -> float | None:
    """A duration as Go writes it, or a number of seconds."""
    found = _DURATION.fullmatch(text.strip()[:64])
    if found is None:
        return None
    seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in _PART.findall(found[2]))
    return -seconds if found[1] else seconds


def _given(value: Any) -> str:
    return repr(value[:32]) if isinstance(value, str) else kind_of(value)


KEEP_ALIVE = Kind(_read_keep_alive, {"anyOf": [{"type": "number"}, {"type": "string"}]})


def _read_messages(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    """Messages, none of which only loads the model."""
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array, got {kind_of(value)}")
    for index, message in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(message, dict):
            raise FieldError(where, f"must be an object, got {kind_of(message)}")
        for field in ("role", "content", "thinking", "tool_name", "tool_call_id"):
            text = message.get(field)
            if text is None and field == "role":
                raise FieldError(f"{where}.role", "is required")
            if text is not None and not isinstance(text, str):
                raise FieldError(f"{where}.{field}", f"must be a string, got {kind_of(text)}")
        if message.get("images"):
            raise FieldError(f"{where}.images", "is not supported: llmserve reads text only")
    return tuple(value)


MESSAGES = Kind(
    _read_messages,
    {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["role"],
            "properties": {
                "role": {"type": "string"},
                "content": {"type": ["string", "null"]},
                "thinking": {"type": ["string", "null"]},
                "tool_calls": {"type": ["array", "null"], "items": {"type": "object"}},
                "tool_name": {"type": ["string", "null"]},
            },
        },
    },
)
