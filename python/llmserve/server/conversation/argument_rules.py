"""What each argument of a tool may be, where arguments stand between tags of their own.

Strings stand there without quotes, everything else as JSON. A property's schema decides how its value is
generated, so that it always matches, and how it becomes JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

# These keywords do not affect what is valid.
_NOTES = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
)
_OF_ROOT = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"}
)
_DEFINITIONS = ("$defs", "definitions")
_LOCAL = re.compile(r"#/(\$defs|definitions)/([^/%~]+)")
# Texts that cannot be taken for a part of a tag.
_NAME = re.compile(r"[\w.\-]{1,128}")

_MAX_CHOICES = 512
_MAX_REFERENCES = 16
_SCALARS = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any string, as it is."""

    is_nullable: bool = False
    """Whether the text `null` stands for null instead of a string."""


@dataclass(frozen=True, slots=True)
class QuotedText:
    """Any string, up to a quotation mark that is not escaped."""

    quote: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values: as it is written, and as JSON."""

    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a JSON Schema, given as text. It ends only when what follows it is seen."""

    schema: str


@dataclass(frozen=True, slots=True)
class Document:
    """A value of a JSON Schema, given as text."""

    schema: str


Rule: TypeAlias = FreeText | QuotedText | Choice | Number | Document


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool."""

    name: str
    is_required: bool
    rule: Rule
    kind: str | None = "string"
    """The JSON type by which tags may differ; `None` if it is open, or a string that is written as JSON."""


def arguments_of(schema: Mapping[str, Any]) -> tuple[Argument, ...] | None:
    """The arguments of a tool's schema, in its order; `None` if they are not a plain list of properties."""
    properties = schema.get("properties")
    required = schema.get("required", [])
    if not isinstance(properties, Mapping) or not set(schema) <= _OF_ROOT | _NOTES:
        return None
    if not properties and schema.get("additionalProperties") is not False:
        return None  # whatever the model likes
    if not isinstance(required, list) or not all(name in properties for name in required):
        return None
    if not all(_NAME.fullmatch(name) for name in properties) or not _has_local_references(schema):
        return None
    rules = {name: _rule(value, schema, _MAX_REFERENCES) for name, value in properties.items()}
    return tuple(Argument(name, name in required, rule, _kind(rule)) for name, rule in rules.items())


def _kind(rule: Rule) -> str | None:
    if isinstance(rule, Choice):
        kinds = {_kind_of_json(text) for _, text in rule.values}
        return kinds.pop() if len(kinds) == 1 else None
    if isinstance(rule, Number | Document):
        schema = json.loads(rule.schema)
        kind = schema.get("type") if isinstance(schema, dict) else None
        return kind if isinstance(kind, str) and kind != "string" else None
    return "string"


def _kind_of_json(text: str) -> str:
    kinds = {'"': "string", "t": "boolean", "f": "boolean", "n": "null"}
    return kinds.get(text[0], "number")


def _has_local_references(value: Any) -> bool:
    """Whether all references are to definitions, which a property's schema can take along."""
    if isinstance(value, Mapping):
        reference = value.get("$ref", "#/$defs/x")
        if "$dynamicRef" in value or not isinstance(reference, str) or not _LOCAL.fullmatch(reference):
            return False
        return all(_has_local_references(item) for item in value.values())
    return not isinstance(value, list) or all(_has_local_references(item) for item in value)


def _rule(schema: Any, root: Mapping[str, Any], num_references: int) -> Rule:
    if not isinstance(schema, Mapping):
        return _json(schema, root)
    keywords = set(schema) - _NOTES
    if keywords == {"$ref"} and num_references:
        if (target := _target(schema["$ref"], root)) is not None:
            return _rule(target, root, num_references - 1)
    elif keywords and keywords <= {"type", "enum", "const"} and (choice := _choice(schema)):
        return choice
    elif _is_text(schema):
        return FreeText()
    elif _is_nullable_text(schema, keywords):
        return FreeText(is_nullable=True)
    return _json(schema, root)


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    matched = _LOCAL.fullmatch(reference)
    definitions = root.get(matched[1]) if matched else None
    return definitions.get(matched[2]) if matched and isinstance(definitions, Mapping) else None


def _is_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and set(schema) - _NOTES == {"type"} and schema["type"] == "string"


def _is_nullable_text(schema: Mapping[str, Any], keywords: set[str]) -> bool:
    if keywords == {"type"}:
        return isinstance(schema["type"], list) and sorted(map(str, schema["type"])) == ["null", "string"]
    alternatives = schema.get("anyOf")
    if keywords != {"anyOf"} or not isinstance(alternatives, list) or len(alternatives) != 2:
        return False
    return any(map(_is_text, alternatives)) and {"type": "null"} in alternatives


def _choice(schema: Mapping[str, Any]) -> Choice | None:
    """The values of a schema that lists them all, unless some are objects or arrays."""
    kind = schema.get("type")
    if "enum" in schema or "const" in schema:
        listed = schema.get("enum", [schema.get("const")])
        if not isinstance(listed, list) or not 0 < len(listed) <= _MAX_CHOICES:
            return None
        if "const" in schema:
            listed = [value for value in listed if _same(value, schema["const"])]
        if any(isinstance(value, Mapping | list) for value in listed):
            return None
        return _choice_of(value for value in listed if _is_of(value, kind))
    if kind == "boolean":
        # Templates may show Python's words for them.
        return Choice((("true", "true"), ("false", "false"), ("True", "true"), ("False", "false")))
    return Choice((("null", "null"),)) if kind == "null" else None


def _choice_of(values: Iterable[Any]) -> Choice | None:
    shown: dict[str, str] = {}
    for value in values:
        text = json.dumps(value, ensure_ascii=False)
        shown.setdefault(value if isinstance(value, str) else text, text)
    # An empty value, or one with blanks at its ends, could not be told from the text around it.
    is_clear = all(text and text == text.strip() for text in shown)
    return Choice(tuple(shown.items())) if shown and is_clear else None


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def _is_of(value: Any, kind: Any) -> bool:
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is None:
        return True
    if isinstance(value, bool) or value is None:
        return ("null" if value is None else "boolean") in kinds
    if isinstance(value, str):
        return "string" in kinds
    return "number" in kinds or ("integer" in kinds and float(value).is_integer())


def _json(schema: Any, root: Mapping[str, Any]) -> Rule:
    is_number = isinstance(schema, Mapping) and schema.get("type") in _SCALARS
    if isinstance(schema, Mapping):
        taken = (*_DEFINITIONS, "$schema")
        schema = {**{key: root[key] for key in taken if key in root}, **schema}
    text = json.dumps(schema)
    return Number(text) if is_number else Document(text)
