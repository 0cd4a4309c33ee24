"""llama-server's list of samplers on the wire, and the sequence breakers of DRY."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llmserve.sampling_params import ALL_SAMPLERS
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Kind
from llmserve.server.web.schema import kind_of, shown

NATIVE_SAMPLERS = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
"""llama-server's own order."""

MAX_SAMPLERS = 32
MAX_BREAKERS = 64
MAX_BREAKER_CHARS = 64

_INITIALS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}
_OTHER_NAMES = {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p", "typical_p": "typ_p"}


def _names() -> Iterator[tuple[str, str]]:
    for name in ALL_SAMPLERS:
        yield from ((name, name), (name.replace("_", "-"), name), (name.replace("_", ""), name))
    yield from _OTHER_NAMES.items()


_NAMES = dict(_names())


def _read_samplers(value: Any, name: str) -> tuple[str, ...]:
    """Names, or a text of initials."""
    known = _INITIALS if isinstance(value, str) else _NAMES
    if not isinstance(value, str | list):
        raise FieldError(name, f"must be an array of samplers, or their initials, got {kind_of(value)}")
    _check_number(len(value), name, MAX_SAMPLERS)
    for index, item in enumerate(value):
        if not isinstance(item, str) or item not in known:
            words = "an initial of " if isinstance(value, str) else ""
            names = ", ".join(ALL_SAMPLERS)
            raise FieldError(f"{name}[{index}]", f"must be {words}one of {names}, got {shown(item)}")
    return tuple(known[item] for item in value)


SAMPLERS = Kind(
    _read_samplers,
    {
        "anyOf": [
            {"type": "array", "items": {"enum": list(_NAMES)}, "maxItems": MAX_SAMPLERS},
            {"type": "string", "pattern": f"^[{re.escape(''.join(_INITIALS))}]{{0,{MAX_SAMPLERS}}}$"},
        ]
    },
)
"""Names as llama-server has them, in all its spellings, or a text of their initials."""


def _read_breakers(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise FieldError(name, f"must be an array of strings, got {kind_of(value)}")
    _check_number(len(value), name, MAX_BREAKERS)
    for index, item in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(item, str):
            raise FieldError(where, f"must be a string, got {kind_of(item)}")
        if not item:
            raise FieldError(where, "must not be empty")
        if len(item) > MAX_BREAKER_CHARS:
            raise FieldError(
                where,
                f"must have at most {MAX_BREAKER_CHARS} characters, got {len(item)}",
                limit=MAX_BREAKER_CHARS,
            )
    return tuple(value)


BREAKERS = Kind(
    _read_breakers,
    {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_BREAKER_CHARS},
        "maxItems": MAX_BREAKERS,
    },
)


def _check_number(number: int, name: str, limit: int) -> None:
    if number > limit:
        raise FieldError(name, f"must have at most {limit} entries, got {number}", limit=limit)
