"""How large a result may get, found before it is made: for operations that make much of little."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from llmserve.templates.limits import check_number, limited, weight

__all__ = ["METHODS", "binary", "formatted", "indented", "joined", "replaced"]

_MAX_WIDTH = 100_000
_DIGITS = re.compile(r"\d+")

_Text: TypeAlias = str | bytes


def binary(operator: str, left: Any, right: Any) -> int:
    """Characters and items of an operator's result. Raises for integers that are slow to compute with."""
    check_number(left)
    check_number(right)
    if operator == "%" and isinstance(left, str | bytes):
        return formatted(left, "%", right)
    if operator == "**" and isinstance(left, int) and isinstance(right, int) and right > 0:
        check_number(1 << min(left.bit_length() * right, 1 << 20))
    if operator == "*":
        sequence, times = (right, left) if isinstance(right, str | bytes | list | tuple) else (left, right)
        if isinstance(sequence, str | bytes | list | tuple) and isinstance(times, int):
            return weight(sequence) * max(times, 0)
    if operator == "+" and isinstance(left, str | bytes | list | tuple):
        return weight(left, right)
    return 0


def formatted(pattern: _Text, sign: str, *values: Any) -> int:
    """An upper bound of the characters, whichever widths and values the pattern asks for."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    widths = [int(digits[:9]) for digits in _DIGITS.findall(text)]
    # A width or precision may be one of the values.
    numbers = [abs(value) for value in _flat(values) if isinstance(value, int)]
    return len(text) + sum(widths) + text.count(sign) * (weight(*values) + sum(numbers))


def replaced(text: _Text, old: Any, new: Any = "", *_: Any) -> int:
    """The size of `text.replace(old, new)`."""
    if not isinstance(old, type(text)):
        return len(text)
    return len(text) + text.count(old) * len(str(new))  # type: ignore[arg-type]


def joined(separator: Any, values: Sequence[Any]) -> int:
    """Of `separator.join(values)`."""
    return weight(values) + len(values) * len(separator)


def indented(text: _Text, width: Any = 4, *_: Any, **__: Any) -> int:
    """The size of the filter `indent`'s result."""
    width = len(width) if isinstance(width, str) else width
    return len(text) + (len(text.splitlines()) + 1) * _width(width)


def _padded(text: _Text, width: Any = 0, *_: Any) -> int:
    return len(text) + _width(width)


def _with_tabs(text: _Text, size: Any = 8) -> int:
    return len(text) + len(text) * _width(size)


def _format_method(text: str, *values: Any, **named: Any) -> int:
    return formatted(text, "{", *values, named)


def _join_method(separator: Any, values: Any = ()) -> int:
    return joined(separator, values if isinstance(values, Sequence) else ())


def _refused(*_: Any, **__: Any) -> int:
    raise limited("calls a method that may make large values of small ones")


# Methods of texts and numbers whose results may be much larger than what they are called with.
METHODS: Mapping[str, Callable[..., int]] = {
    "center": _padded,
    "ljust": _padded,
    "rjust": _padded,
    "zfill": _padded,
    "expandtabs": _with_tabs,
    "format": _format_method,
    "format_map": _format_method,
    "join": _join_method,
    "replace": replaced,
    "to_bytes": _refused,
    "translate": _refused,
}


def _width(width: Any) -> int:
    if not isinstance(width, int):
        return 0
    if width > _MAX_WIDTH:
        raise limited(f"asks for a width of more than {_MAX_WIDTH}")
    return max(width, 0)


def _flat(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, Mapping):
            flat.extend(value.values())
        elif isinstance(value, list | tuple):
            flat.extend(value)
        else:
            flat.append(value)
    return flat
