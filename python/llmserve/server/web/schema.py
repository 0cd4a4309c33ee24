"""Typed bodies: a dataclass says what a JSON object holds, once for reading and for OpenAPI.

Each field is ``Annotated[type, Field(...)]``; a field without default is required. Reading names the
field, the limit and the value met in every error, takes ``null`` as absent, never takes a boolean for a
number, and reports unknown fields instead of dropping them.

Ours and not a library's: dialects differ in what they do with unknown fields, and all of them need the
field's name as data, which validators that are otherwise faster give only inside a text.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from llmserve.server.refusals import FieldError

T = TypeVar("T")

MAX_FIELDS = 1000
"""The most fields of one object. Each unknown one is looked at, on the event loop."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (-3.4028234663852886e38, 3.4028234663852886e38),
    "double": (-math.inf, math.inf),
}


@dataclass(frozen=True, slots=True)
class Field:
    """What is known of a field beyond its Python type."""

    doc: str
    example: Any = None
    format: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    non_empty: bool = False
    wire: str | None = None
    """Its name in JSON, where that is not the attribute's."""
    read: Callable[[Any, str], Any] | None = None
    """Reads a value of its own kind, given with the field's name; raises :class:`FieldError`."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of what ``read`` takes."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A body that was read: the value, and the dotted names of fields that nobody knows."""

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


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    attribute: str
    type: Any
    field: Field
    required: bool
    default: Any


@cache
def _properties(cls: Any) -> tuple[_Property, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_property(field, hints[field.name]) for field in dataclasses.fields(cls))


def _property(field: dataclasses.Field[Any], hint: Any) -> _Property:
    base, meta = typing.get_args(hint)[:2]
    if isinstance(base, types.UnionType):  # `X | None`: null is absent anyway
        base = next(arg for arg in typing.get_args(base) if arg is not type(None))
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else field.default
    return _Property(meta.wire or field.name, field.name, base, meta, required, default)


def _read_object(cls: Any, body: Mapping[str, Any], where: str, unknown: list[str]) -> Any:
    values: dict[str, Any] = {}
    known = _properties(cls)
    for prop in known:
        value = body.get(prop.name)
        name = where + prop.name
        if value is None:
            if prop.required:
                raise FieldError(name, "is required")
        elif prop.field.read is not None:
            values[prop.attribute] = prop.field.read(value, name)
        elif dataclasses.is_dataclass(prop.type):
            if not isinstance(value, dict):
                raise FieldError(name, f"must be an object, got {kind_of(value)}")
            _check_width(value, name)
            values[prop.attribute] = _read_object(prop.type, value, name + ".", unknown)
        else:
            values[prop.attribute] = _SCALARS[prop.type](value, name, prop.field)
    names = {prop.name for prop in known}
    unknown.extend(where + key for key in body if key not in names)
    return cls(**values)


def _check_width(body: Mapping[str, Any], name: str) -> None:
    if len(body) > MAX_FIELDS:
        raise FieldError(name, f"must have at most {MAX_FIELDS} fields, got {len(body)}")


def _read_text(value: Any, name: str, field: Field) -> str:
    if not isinstance(value, str):
        raise FieldError(name, f"must be a string, got {kind_of(value)}")
    if field.non_empty and not value:
        raise FieldError(name, "is required")
    return value


def _read_boolean(value: Any, name: str, field: Field) -> bool:
    if not isinstance(value, bool):
        raise FieldError(name, f"must be a boolean, got {kind_of(value)}")
    return value


def _read_integer(value: Any, name: str, field: Field) -> int:
    # JSON has one kind of number: 5.0 is an integer.
    if isinstance(value, float) and value.is_integer():
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
    if value < low:
        raise FieldError(name, f"must be at least {_shown(low)}, got {value}")
    if value > high:
        raise FieldError(name, f"must be at most {_shown(high)}, got {value}")


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:.15g}"


_SCALARS: Mapping[type, Callable[[Any, str, Field], Any]] = {
    str: _read_text,
    bool: _read_boolean,
    int: _read_integer,
    float: _read_number,
}

_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


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


def dump(value: Any) -> dict[str, Any]:
    """A flat object of such a class as JSON, with the names of the wire."""
    cls: Any = type(value)
    return {prop.name: getattr(value, prop.attribute) for prop in _properties(cls)}


def wire_name(cls: type, attribute: str) -> str:
    """The name in JSON of an attribute, or the attribute itself where the class has none such."""
    names = {prop.attribute: prop.name for prop in _properties(cls)}
    return names.get(attribute, attribute)


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema of a body, for OpenAPI 3.1. Nested objects are references by class name."""
    properties = {prop.name: _property_schema(prop) for prop in _properties(cls)}
    schema: dict[str, Any] = {"type": "object", "description": _summary(cls), "properties": properties}
    if required := [prop.name for prop in _properties(cls) if prop.required]:
        schema["required"] = required
    return schema


def nested(cls: type) -> list[type]:
    """The classes of nested objects, all levels down."""
    found: list[type] = []
    for prop in _properties(cls):
        if dataclasses.is_dataclass(prop.type) and isinstance(prop.type, type):
            found += [prop.type, *nested(prop.type)]
    return found


def _property_schema(prop: _Property) -> dict[str, Any]:
    if dataclasses.is_dataclass(prop.type) and isinstance(prop.type, type):
        return {"$ref": f"#/components/schemas/{prop.type.__name__}", "description": prop.field.doc}
    kind = {"type": _JSON_TYPES[prop.type]} if prop.field.schema is None else prop.field.schema
    schema: dict[str, Any] = {**kind, "description": prop.field.doc}
    if prop.default is not None:
        schema["default"] = prop.default
    for key in ("format", "minimum", "maximum"):
        if (value := getattr(prop.field, key)) is not None:
            schema[key] = value
    if prop.field.example is not None:
        schema["examples"] = [prop.field.example]
    if prop.field.non_empty:
        schema["minLength"] = 1
    return schema


def _summary(cls: type) -> str:
    return " ".join((cls.__doc__ or cls.__name__).split())
