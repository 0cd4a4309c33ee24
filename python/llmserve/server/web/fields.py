"""How a dataclass describes a JSON object, once for reading it, for OpenAPI and for names in errors.

Each attribute is ``Annotated[type, Field(...)]``; one without default is a required field. An attribute
``Annotated[Values, Group(ENTRIES)]`` stands for fields from a table, which lie beside the others in JSON
and are read into one mapping. A class variable `foreign` says what becomes of fields that are not declared.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

Values: TypeAlias = Mapping[str, Any]
"""The fields of a :class:`Group` that have a value, by their names in the engine."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of field that is more than one scalar."""

    read: Callable[[Any, str], Any]
    """Reads a value, given with the field's name; raises :class:`FieldError`."""
    schema: Mapping[str, Any]
    """JSON Schema of the values that ``read`` accepts."""


@dataclass(frozen=True, slots=True)
class Field:
    """What is known of a field beyond its Python type."""

    doc: str
    example: Any = None
    format: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    """An exclusive minimum."""
    non_empty: bool = False
    is_exact: bool = False
    """Whether an integer may not be written as 5.0: fractions lose digits long before 64 bits."""
    wire: str | None = None
    """The field's name in JSON, if that is not the attribute's."""
    engine: str | tuple[str, ...] = ()
    """The engine's name for what the field sets, if that is not the attribute's; or all such names."""
    is_alias: bool = False
    """Whether errors name it only if it is given."""
    kind: Kind | None = None
    inner: Callable[[Any], str] | None = None
    """Where in a value lies what the engine is given, such as `.pattern`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a table: ``name`` is the engine's."""

    name: str
    type: Any
    field: Field
    default: Any = None


@dataclass(frozen=True, slots=True)
class Group:
    """Fields from a table. If two have the same name, a value of the later one wins."""

    entries: tuple[Entry, ...]
    is_filled: bool = True
    """Whether a field that is not given has its default value when an object was read."""

    def defaults(self) -> Values:
        """The values of an object without any of the fields."""
        return {entry.name: entry.default for entry in self.entries if entry.default is not None}


class Foreign(Protocol):
    """Knows fields that an object does not have."""

    def takes(self, name: str, value: Any, place: str, fields: Collection[str]) -> bool:
        """Whether a field is known, and its value changes nothing.

        ``place`` is its dotted name, and ``fields`` are those that the object has.

        Raises:
            FieldError: The value would change the answer.
        """


@dataclass(frozen=True, slots=True)
class Property:
    """A field of a JSON object, and where its value goes."""

    name: str
    """In JSON."""
    attribute: str
    """The attribute of the dataclass, or the key in the mapping of its group."""
    type: Any
    field: Field
    required: bool
    default: Any
    group: str | None = None
    """The attribute that holds the mapping."""
    is_filled: bool = True
    """Whether the field has its default value in the mapping if it is not given."""

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engine's names for what the field sets."""
        engine = self.field.engine or self.attribute
        return (engine,) if isinstance(engine, str) else engine

    @property
    def nested_type(self) -> type | None:
        """The dataclass of a field that is an object."""
        is_class = self.field.kind is None and dataclasses.is_dataclass(self.type)
        return self.type if is_class and isinstance(self.type, type) else None

    def value_in(self, body: Any) -> Any:
        """The field's value in an object that was read; ``None`` if it has no value."""
        if self.group is None:
            return getattr(body, self.attribute)
        return getattr(body, self.group).get(self.attribute)


@cache
def properties(cls: Any) -> tuple[Property, ...]:
    """The fields of a class, in order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        prop for field in dataclasses.fields(cls) for prop in _properties_of(field, hints[field.name])
    )


def _properties_of(field: dataclasses.Field[Any], hint: Any) -> list[Property]:
    base, meta = typing.get_args(hint)[:2]
    if isinstance(meta, Group):
        return [
            Property(
                e.field.wire or e.name,
                e.name,
                e.type,
                e.field,
                required=False,
                default=e.default,
                group=field.name,
                is_filled=meta.is_filled,
            )
            for e in meta.entries
        ]
    if isinstance(base, types.UnionType):  # `X | None`: null is absent anyway
        base = next(arg for arg in typing.get_args(base) if arg is not type(None))
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else field.default
    return [Property(meta.wire or field.name, field.name, base, meta, required, default)]


def dump(value: Any) -> dict[str, Any]:
    """A flat object of such a class as JSON, with the names of the wire."""
    cls: Any = type(value)
    return {prop.name: prop.value_in(value) for prop in properties(cls)}


def wire_name(body: Any, engine_name: str) -> str:
    """The dotted name in JSON of what the engine calls ``name``, or that name itself if there is none.

    ``body`` is a class, or an object of it: then, of several fields, the given one is named. If none is
    given, it is the one with the engine's name, or else the first that is not another name.
    """
    found = _wire_names(body, engine_name, "")
    if given := [name for name, _, is_given in found if is_given]:
        return given[0]
    names = [name for name, prop, _ in found if not prop.field.is_alias]
    return engine_name if not names or engine_name in names else names[0]


def _wire_names(body: Any, engine_name: str, where: str) -> list[tuple[str, Property, bool]]:
    """All such names, and whether the field has a value of its own."""
    found: list[tuple[str, Property, bool]] = []
    is_class = isinstance(body, type)
    cls: Any = body if is_class else type(body)
    for prop in properties(cls):
        value = None if is_class else prop.value_in(body)
        if prop.nested_type is not None:
            nested = prop.nested_type if value is None else value
            found += _wire_names(nested, engine_name, f"{where}{prop.name}.")
        elif engine_name in prop.engine_names:
            is_given = value is not None and value != prop.default
            inner = prop.field.inner(value) if is_given and prop.field.inner else ""
            found.append((where + prop.name + inner, prop, is_given))
    return found
