"""A table of fields: those of a dataclass of the Python API, with the limits that a server adds.

Types, defaults and docs are the dataclass's own. A dialect takes the table with its differences.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from llmserve.server.attribute_docs import docs_of
from llmserve.server.web.fields import Entry, Field, Group

Differences: TypeAlias = Mapping[str, Any]
"""Attributes of :class:`Field` with other values, and ``default``."""


@dataclass(frozen=True, slots=True)
class Known:
    """A field of the table."""

    type: Any
    default: Any
    field: Field
    is_common: bool
    """Whether a dialect has the field unless it says otherwise."""


_SCALARS = {"bool": bool, "int": int, "float": float, "str": str}
"""Types by the names that annotations have; a field of another type needs a kind."""

Table: TypeAlias = Mapping[str, Known]


def table(cls: type, common: Mapping[str, Differences], rare: Mapping[str, Differences]) -> Table:
    """The named fields of a dataclass, with what a server knows about them in addition."""
    docs = docs_of(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    return {
        name: _known(fields[name], {"doc": docs.get(name, ""), **limits}, is_common=name in common)
        for name, limits in (*common.items(), *rare.items())
    }


def _known(field: dataclasses.Field[Any], limits: Differences, *, is_common: bool) -> Known:
    kind = _SCALARS.get(str(field.type).removesuffix(" | None"))
    # The engine's numbers have 32 bits.
    default_format = {"format": "float"} if kind is float else {}
    return Known(kind, field.default, Field(**{**default_format, **limits}), is_common)


def camel(name: str) -> str:
    """``max_tokens`` as ``maxTokens``."""
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def snake(name: str) -> str:
    """``maxTokens`` as ``max_tokens``."""
    return re.sub(r"(?<!^)[A-Z]", lambda match: f"_{match[0].lower()}", name)


def group(
    known: Table,
    differences: Mapping[str, Differences] | None = None,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    wire: Callable[[str], str] = str,
    has_defaults: bool = True,
) -> Group:
    """A dialect's fields: the common ones and those that it names in ``differences``.

    Without ``has_defaults``, a field that is not given has no value, unless a difference says so.
    """
    different = differences or {}
    names = [name for name, of in known.items() if of.is_common or name in different]
    return Group(
        tuple(
            _entry(name, known[name], {"wire": wire(name), **different.get(name, {})}, has_defaults)
            for name in names
            if name not in without and (only is None or name in only)
        )
    )


def _entry(name: str, known: Known, differences: Differences, has_defaults: bool) -> Entry:
    changes = dict(differences)
    default = changes.pop("default", known.default if has_defaults else None)
    if default is dataclasses.MISSING:  # an empty container
        default = None
    return Entry(name, known.type, dataclasses.replace(known.field, **changes), default)
