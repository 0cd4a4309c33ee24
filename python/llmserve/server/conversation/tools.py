"""Tools that a model may call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ToolMode: TypeAlias = Literal["none", "auto", "required"]
"""Whether the turn has calls: never, as the model likes, or always."""


_WITHOUT_NAMES = frozenset({"$schema", "type", "title", "description", "properties", "required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function with its arguments as a JSON Schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    """The schema as it was given; `None` if there are no arguments."""
    parameters_field: str = field(default="tools", compare=False)
    """How the client calls the schema."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema that the arguments must match, always one of an object."""
        if self.parameters is None or _names_none(self.parameters):
            return {"type": "object", "properties": {}, "additionalProperties": False}
        schema: Mapping[str, Any] = {"type": "object", **self.parameters}
        return schema

    @property
    def template_form(self) -> dict[str, Any]:
        """The tool as chat templates read it."""
        function: dict[str, Any] = {"name": self.name, "description": self.description or ""}
        function["parameters"] = self.parameters or {"type": "object", "properties": {}}
        return {"type": "function", "function": function}


def _names_none(parameters: Mapping[str, Any]) -> bool:
    """Whether a schema is that of a function without parameters: its properties are an empty object, and
    nothing else in it mentions any."""
    is_empty = parameters.get("properties") == {} and not parameters.get("required")
    return is_empty and parameters.keys() <= _WITHOUT_NAMES
