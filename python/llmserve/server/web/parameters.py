"""What a request has beside its body, declared once: for the handler that reads it and for OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from starlette.datastructures import QueryParams
from starlette.types import Scope

from llmserve.server.refusals import FieldError
from llmserve.server.web.headers import header
from llmserve.server.web.schema import shown

_INTEGER = re.compile(r"-?[0-9]{1,18}")

T = TypeVar("T")
D = TypeVar("D")


def as_it_is(text: str, name: str) -> str:
    """Any text."""
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Generic[T, D]):
    """A value in the path, the query or the headers of a request."""

    name: str
    place: Literal["path", "query", "header"]
    doc: str
    read: Callable[[str, str], T]
    """Reads a text, given with the parameter's name; raises :class:`FieldError`."""
    default: D
    """Its value where the request has none."""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    """JSON Schema of the texts that ``read`` takes."""

    def of(self, scope: Scope) -> T | D:
        """Its value in a request.

        Raises:
            FieldError: It is wrong.
        """
        text = self._text(scope)
        return self.default if text is None else self.read(text, self.name)

    def _text(self, scope: Scope) -> str | None:
        if self.place == "header":
            return header(scope, self.name.lower().encode())
        if self.place == "query":
            found: str | None = QueryParams(scope["query_string"]).get(self.name)
            return found
        text: str | None = scope["path_params"].get(self.name)
        return text


def choice_in_query(name: str, values: tuple[str, ...], doc: str) -> Parameter[str, str]:
    """One of several texts; the first one is the default."""

    schema = {"type": "string", "enum": list(values), "default": values[0]}
    read = one_of(values)
    return Parameter(name=name, place="query", doc=doc, read=read, default=values[0], schema=schema)


def one_of(values: tuple[str, ...]) -> Callable[[str, str], str]:
    """Reads one of several texts."""

    def read(text: str, name: str) -> str:
        if text not in values:
            raise FieldError(name, f"must be {' or '.join(values)}, got {shown(text)}")
        return text

    return read


def integer_in_query(name: str, minimum: int, maximum: int, default: int, doc: str) -> Parameter[int, int]:
    """An integer within bounds."""

    def read(text: str, name: str) -> int:
        number = int(text) if _INTEGER.fullmatch(text) else None
        if number is None or not minimum <= number <= maximum:
            raise FieldError(name, f"must be an integer from {minimum} to {maximum}, got {shown(text)}")
        return number

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return Parameter(name=name, place="query", doc=doc, read=read, default=default, schema=schema)


def in_path(name: str, doc: str) -> Parameter[str, str]:
    """A parameter of an endpoint's path, which every request has."""
    return Parameter(name=name, place="path", doc=doc, read=as_it_is, default="")
