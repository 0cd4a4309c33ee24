"""The kinds of fields that hold token ids."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import read_object
from llmserve.server.web.fields import Kind
from llmserve.server.web.schema import kind_of


@dataclass(frozen=True, slots=True)
class MixedPrompt:
    """A prompt of texts and token ids, as llama-server takes it."""

    parts: tuple[str | int, ...]


WirePrompt: TypeAlias = str | list[int] | MixedPrompt

Prompts: TypeAlias = tuple[WirePrompt, ...]

MAX_BIAS = 100
_MAX_ID = 2**31 - 1
_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")


def logit_bias(max_entries: int | None = None) -> Kind:
    """Token ids, as strings, and the numbers that are added to their logits."""
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": -MAX_BIAS, "maximum": MAX_BIAS},
    }
    if max_entries is not None:
        schema["maxProperties"] = max_entries

    def read(value: Any, name: str) -> dict[int, float]:
        entries = read_object(value, name)
        if max_entries is not None and len(entries) > max_entries:
            raise FieldError(
                name, f"must have at most {max_entries} entries, got {len(entries)}", limit=max_entries
            )
        return {_read_key(key, name): _read_bias(bias, f"{name}.{key}") for key, bias in entries.items()}

    return Kind(read, schema)


LOGIT_BIAS = logit_bias()


def _read_biases_or_pairs(value: Any, name: str) -> dict[int | str, float]:
    if isinstance(value, list):
        return dict(_read_pair(item, f"{name}[{index}]") for index, item in enumerate(value))
    return {
        _read_id_or_text(key, name): _read_bias(bias, f"{name}.{key[:32]}")
        for key, bias in read_object(value, name).items()
    }


TOKEN_BIAS = Kind(_read_biases_or_pairs, LOGIT_BIAS.schema)
"""Token ids or texts with numbers, or llama-server's pairs, in which false bans a token."""


def _read_id_or_text(key: str, name: str) -> int | str:
    if not key:
        raise FieldError(name, "must have token ids or texts as keys, got an empty text")
    # Digits, also those of an id that is too large, stand for an id.
    return _read_key(key, name) if key.removeprefix("-").isdecimal() else key


def _read_key(key: str, name: str) -> int:
    if _TOKEN_ID.fullmatch(key) is None or int(key) > _MAX_ID:
        raise FieldError(name, f"must have token ids as keys, got {key[:32]!a}")
    return int(key)


def _read_pair(value: Any, name: str) -> tuple[int | str, float]:
    if not isinstance(value, list) or len(value) != 2 or type(value[0]) not in (int, str) or value[0] == "":
        raise FieldError(name, "must be a token id, or a text, and a number")
    if value[1] is False:
        return value[0], -math.inf
    return value[0], _read_bias(value[1], f"{name}[1]")


def _read_bias(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, f"must be a number, got {kind_of(value)}")
    if not -MAX_BIAS <= value <= MAX_BIAS:
        raise FieldError(
            name,
            f"must be from -{MAX_BIAS} to {MAX_BIAS}, got {value}",
            limit=-MAX_BIAS if value < 0 else MAX_BIAS,
        )
    return float(value)


def read_prompts(value: Any, name: str) -> Prompts:
    """One prompt or several, each in a form that `read_prompt` takes."""
    if not isinstance(value, list):
        return (read_prompt(value, name),)
    if not value:
        raise FieldError(name, "must not be empty")
    if _is_one_prompt(value):
        return (read_prompt(value, name),)
    return tuple(read_prompt(item, f"{name}[{index}]") for index, item in enumerate(value))


def _is_one_prompt(items: list[Any]) -> bool:
    """Whether an array is one prompt of token ids, with or without texts between them."""
    return any(_is_number(item) for item in items) and all(
        isinstance(item, str) or _is_number(item) for item in items
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_prompt(value: Any, name: str) -> WirePrompt:
    """One prompt: a text, token ids, both in one array, or llama-server's object with a text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _read_prompt_object(value, name)
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        if not any(_is_number(item) for item in value):
            raise FieldError(name, "must be a string, got an array")
        return MixedPrompt(_read_parts(value, name))
    return _read_token_ids(value, name)


def _read_parts(items: list[Any], name: str) -> tuple[str | int, ...]:
    return tuple(
        item if isinstance(item, str) else _read_token_id(item, f"{name}[{index}]")
        for index, item in enumerate(items)
    )


def _read_prompt_object(value: dict[str, Any], name: str) -> str:
    if value.get("multimodal_data"):
        raise FieldError(f"{name}.multimodal_data", "is not supported: llmserve reads text only")
    text = value.get("prompt_string")
    if not isinstance(text, str):
        raise FieldError(f"{name}.prompt_string", f"must be a string, got {kind_of(text)}")
    return text


def _read_token_ids(value: Any, name: str) -> list[int]:
    if not isinstance(value, list):
        raise FieldError(name, f"must be a string or an array of token ids, got {kind_of(value)}")
    return [_read_token_id(item, f"{name}[{index}]") for index, item in enumerate(value)]


def _read_token_id(value: Any, name: str) -> int:
    # JSON does not tell 5.0 from 5.
    token = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(token) is not int:
        raise FieldError(name, f"must be a token id, got {kind_of(value)}")
    if not 0 <= token <= _MAX_ID:
        raise FieldError(name, f"must be from 0 to {_MAX_ID}, got {token}", limit=0 if token < 0 else _MAX_ID)
    return token


_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": _MAX_ID}}

TOKEN_IDS = Kind(_read_token_ids, _TOKENS)

_OBJECT = {
    "type": "object",
    "required": ["prompt_string"],
    "properties": {"prompt_string": {"type": "string"}},
}

_MIXED = {"type": "array", "items": {"anyOf": [{"type": "string"}, _TOKENS["items"]]}}

PROMPT = Kind(read_prompt, {"anyOf": [{"type": "string"}, _MIXED, _OBJECT]})

PROMPTS = Kind(
    read_prompts,
    {
        "anyOf": [
            {"type": "string"},
            _MIXED,
            _OBJECT,
            {"type": "array", "items": {"anyOf": [{"type": "string"}, _MIXED, _OBJECT]}},
        ]
    },
)
