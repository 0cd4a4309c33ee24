"""Reads JSON objects as typed bodies (:mod:`llmserve.server.web.fields` says how they are declared).

Reading names the field, the limit and the value met in every error, takes ``null`` as absent, never takes a
boolean for a number, and reports unknown fields instead of dropping them, unless the class knows them.

We do not use a library: dialects differ in what they do with unknown fields, and all of them need the
field's name as data, which otherwise faster validators give only inside a text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Field, Foreign, Property, properties

T = TypeVar("T")

MAX_FIELDS = 1000
"""Maximum number of fields in one object. Each unknown one is looked at, on the event loop."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (-3.4028234663852886e38, 3.4028234663852886e38),
    "double": (-math.inf, math.inf),
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A body that was read: the value, and the dotted names of unknown fields."""

    value: T
    unknown: tuple[str, ...]


def read(cls: type[T], body: Mapping[str, Any]) -> Parsed[T]:
    """Read a JSON object as the dataclass ``cls``.

    Raises:
        FieldError: The first field that is missing, of a wrong type or out of range, or ``body`` itself.
    """
    _check_width(body, "body")
    unknown: list[str] = []
    return Parsed(_read_object(cls, body, "", unknown), tuple(unknown))


def _read_object(cls: Any, body: Mapping[str, Any], where: str, unknown: list[str]) -> Any:
    values: dict[str, Any] = {}
    known = properties(cls)
    for prop in known:
        value = body.get(prop.name)
        if value is None and prop.required:
            raise FieldError(where + prop.name, "is required")
        if value is not None:
            value = _read_value(prop, value, where + prop.name, unknown)
        elif prop.is_filled and prop.group is not None:
            value = prop.default
        if prop.group is not None:
            group = values.setdefault(prop.group, {})
            if value is not None:
                group[prop.attribute] = value
        elif body.get(prop.name) is not None:
            values[prop.attribute] = value
    unknown.extend(_unknown(cls, body, {prop.name for prop in known}, where))
    return cls(**values)


def _unknown(cls: Any, body: Mapping[str, Any], names: Collection[str], where: str) -> Iterator[str]:
    foreign: Foreign | None = getattr(cls, "foreign", None)
    for key, value in body.items():
        if key not in names and not (foreign and foreign.takes(key, value, where + key, names)):
            yield where + key


def _read_value(prop: Property, value: Any, name: str, unknown: list[str]) -> Any:
    if prop.field.kind is not None:
        return prop.field.kind.read(value, name)
    if prop.nested_type is None:
        if value == "" and prop.field.non_empty:
            # Of what is required, protobuf sends the same for an empty text and for none.
            raise FieldError(name, "is required" if prop.required else "must not be empty")
        return _SCALARS[prop.type](value, name, prop.field)
    if not isinstance(value, dict):
        raise FieldError(name, f"must be an object, got {kind_of(value)}")
    _check_width(value, name)
    return _read_object(prop.nested_type, value, name + ".", unknown)


def _check_width(body: Mapping[str, Any], name: str) -> None:
    if len(body) > MAX_FIELDS:
        raise FieldError(name, f"must have at most {MAX_FIELDS} fields, got {len(body)}", limit=MAX_FIELDS)


def _read_text(value: Any, name: str, field: Field) -> str:
    if not isinstance(value, str):
        raise FieldError(name, f"must be a string, got {kind_of(value)}")
    return value


def _read_boolean(value: Any, name: str, field: Field) -> bool:
    if not isinstance(value, bool):
        raise FieldError(name, f"must be a boolean, got {kind_of(value)}")
    return value


def _read_integer(value: Any, name: str, field: Field) -> int:
    # JSON has one kind of number: 5.0 is an integer.
    if isinstance(value, float) and value.is_integer():
        if field.is_exact:
            # An integer of more than 64 bits is read as such a number, too.
            _check_range(value, name, field, "int64")
        else:
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(name, f"must be an integer, got {kind_of(value)}")
    _check_range(value, name, field, "int64")
    return value


def _read_number(value: Any, name: str, field: Field) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, f"must be a number, got {kind_of(value)}")
    _check_range(value, name, field, "double")
    return float(value)


def _check_range(value: float, name: str, field: Field, default_format: str) -> None:
    low, high = _RANGES[field.format or default_format]
    low = low if field.minimum is None else field.minimum
    high = high if field.maximum is None else field.maximum
    if not math.isfinite(value):
        raise FieldError(name, f"must be a finite number, got {value}")
    if field.above is not None and value <= field.above:
        raise FieldError(name, f"must be above {_shown(field.above)}, got {value}", limit=field.above)
    if value < low:
        raise FieldError(name, f"must be at least {_shown(low)}, got {value}", limit=low)
    if value > high:
        raise FieldError(name, f"must be at most {_shown(high)}, got {value}", limit=high)


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:.15g}"


_SCALARS: Mapping[type, Callable[[Any, str, Field], Any]] = {
    str: _read_text,
    bool: _read_boolean,
    int: _read_integer,
    float: _read_number,
}


def kind_of(value: object) -> str:
    """A JSON value's kind in words, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def shown(value: object) -> str:
    """A value that may be one of a few names, for messages."""
    return repr(value[:32]) if isinstance(value, str) else kind_of(value)
