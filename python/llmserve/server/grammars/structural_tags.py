"""Structural tags (xgrammar's, as vLLM and SGLang take them) as a grammar in llguidance's Lark.

Text is free until it has a trigger. From there on it continues as one of the tags that begin with the
trigger, whose content matches the tag's schema. The texts up to a trigger are lazy lexemes: where one ends,
no longer text can go on, so a trigger never passes as free text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from llmserve.server.grammars.requested import MAX_GRAMMAR_BYTES
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of, shown

_ANY = r"/(\n|.)*/"
_TEXT = "TEXT"
_DIVIDER = re.compile(r"(\\.)|[/\n]", re.DOTALL)
_COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
"""The engine's own documents have no blanks either: a model could write them without end."""

MAX_LEVELS = 16
"""How deep formats may stand in each other."""


class _Tag(NamedTuple):
    begin: str
    rest: str
    """The expression of content and end."""


def structural_tag_to_lark(given: Any, field: str) -> str:
    """The grammar of a structural tag, in its older form (`structures`, `triggers`) or its newer (`format`).

    Raises:
        FieldError: It has a mistake, or something that is not supported.
    """
    tag = _object(given, field)
    writer = _Writer()
    start = writer.older(tag, field) if "structures" in tag else writer.newer(tag, field)
    text = "\n".join([f"start: {start}", *writer.rules, rf"{_TEXT}: /(\n|.)+/"])
    if (num_bytes := len(text.encode())) > MAX_GRAMMAR_BYTES:
        reason = f"must be at most {MAX_GRAMMAR_BYTES} bytes as a grammar, got {num_bytes}"
        raise FieldError(field, reason, limit=MAX_GRAMMAR_BYTES)
    return text


class _Writer:
    """Writes expressions, and the rules that they name."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self._writers: Mapping[str, Callable[[Mapping[str, Any], str, int], str]] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "regex": self._regex,
            "tag": self._whole_tag,
            "sequence": self._sequence,
            "or": self._or,
            "tags_with_separator": self._separated,
        }

    def older(self, given: Mapping[str, Any], field: str) -> str:
        """The expression of `structures` and `triggers`."""
        tags = []
        for tag, where in _items(given, "structures", field):
            content = self._rule(_json(tag.get("schema"), f"{where}.schema"))
            tags.append(_Tag(_text(tag, "begin", where), f"{content} {_end(tag, where)}"))
        return self._triggered(tags, given, field)

    def newer(self, given: Mapping[str, Any], field: str) -> str:
        """The expression of `format`."""
        where = f"{field}.format"
        made = _object(given.get("format"), where)
        if made.get("type") != "triggered_tags":
            return self._expression(made, where, 0)
        if made.get("excludes"):
            raise FieldError(f"{where}.excludes", "is not supported")
        tags = [self._tag(tag, name, 1) for tag, name in _items(made, "tags", where)]
        return self._triggered(tags, made, where)

    def _triggered(self, tags: Sequence[_Tag], given: Mapping[str, Any], field: str) -> str:
        triggers = _texts(given, "triggers", field)
        _check_triggers(triggers, f"{field}.triggers")
        by_trigger: dict[str, list[str]] = {trigger: [] for trigger in triggers}
        for tag in tags:
            trigger = next((known for known in triggers if tag.begin.startswith(known)), None)
            if trigger is None:
                raise FieldError(f"{field}.triggers", f"has none that begins {shown(tag.begin)}")
            by_trigger[trigger].append(f"{_literal(tag.begin.removeprefix(trigger))} {tag.rest}")
        dispatch = _either(
            f"{self._until(trigger)} {_either(rests)}" for trigger, rests in by_trigger.items() if rests
        )
        first = _either(f"{_literal(tag.begin)} {tag.rest}" for tag in tags)
        if given.get("stop_after_first"):
            return first if given.get("at_least_one") else f"({dispatch} | {_TEXT})?"
        return f"{first if given.get('at_least_one') else ''} {dispatch}* {_TEXT}?"

    def _expression(self, given: Mapping[str, Any], field: str, level: int) -> str:
        kind = given.get("type")
        write = self._writers.get(kind) if isinstance(kind, str) else None
        if write is None:
            known = "triggered_tags (the whole format only), any_text (in a tag only), "
            raise FieldError(
                f"{field}.type", f"must be {known}{' or '.join(self._writers)}, got {shown(kind)}"
            )
        if level > MAX_LEVELS:
            raise FieldError(field, f"must have at most {MAX_LEVELS} levels", limit=MAX_LEVELS)
        return write(given, field, level)

    def _const_string(self, given: Mapping[str, Any], field: str, level: int) -> str:
        return _literal(_text(given, "value", field))

    def _json_schema(self, given: Mapping[str, Any], field: str, level: int) -> str:
        return self._rule(_json(given.get("json_schema"), f"{field}.json_schema"))

    def _regex(self, given: Mapping[str, Any], field: str, level: int) -> str:
        pattern = _text(given, "pattern", field)
        escaped = _DIVIDER.sub(lambda m: m[1] or {"/": "\\/", "\n": "\\n"}[m[0]], pattern)
        return self._rule(f"/{escaped}/")

    def _whole_tag(self, given: Mapping[str, Any], field: str, level: int) -> str:
        tag = self._tag(given, field, level)
        return f"({_literal(tag.begin)} {tag.rest})"

    def _tag(self, given: Mapping[str, Any], field: str, level: int) -> _Tag:
        begin, content = _text(given, "begin", field), _object(given.get("content"), f"{field}.content")
        if content.get("type") == "any_text":
            return _Tag(begin, self._until(_text(given, "end", field)))
        inner = self._expression(content, f"{field}.content", level + 1)
        return _Tag(begin, f"{inner} {_end(given, field)}")

    def _sequence(self, given: Mapping[str, Any], field: str, level: int) -> str:
        return f"({' '.join(self._elements(given, field, level))})"

    def _or(self, given: Mapping[str, Any], field: str, level: int) -> str:
        return _either(self._elements(given, field, level))

    def _elements(self, given: Mapping[str, Any], field: str, level: int) -> list[str]:
        elements = _items(given, "elements", field)
        return [self._expression(element, where, level + 1) for element, where in elements]

    def _separated(self, given: Mapping[str, Any], field: str, level: int) -> str:
        tag = _either(self._whole_tag(tag, where, level + 1) for tag, where in _items(given, "tags", field))
        if not given.get("stop_after_first"):
            tag = f"({tag} ({_literal(_text(given, 'separator', field))} {tag})*)"
        return tag if given.get("at_least_one") else f"({tag})?"

    def _until(self, text: str) -> str:
        """Any text up to the first place where this one ends."""
        return self._rule(f"{_ANY} {_literal(text)}", attribute="[lazy]")

    def _rule(self, body: str, attribute: str = "") -> str:
        name = f"r{len(self.rules)}"
        self.rules.append(f"{name}{attribute}: {body}")
        return name


def _check_triggers(triggers: Sequence[str], field: str) -> None:
    for trigger in triggers:
        if any(trigger in other for other in triggers if other is not trigger):
            raise FieldError(field, f"must not contain each other, got {shown(trigger)}")


def _either(expressions: Any) -> str:
    return f"({' | '.join(expressions)})"


def _literal(text: str) -> str:
    return json.dumps(text) if text else ""


def _json(schema: Any, field: str) -> str:
    if not isinstance(schema, dict | bool):
        raise FieldError(field, f"must be an object, got {kind_of(schema)}")
    rules = schema if isinstance(schema, dict) else {} if schema else {"not": {}}
    return f"%json {orjson.dumps({**rules, 'x-guidance': _COMPACT}).decode()}"


def _end(tag: Mapping[str, Any], field: str) -> str:
    end = tag.get("end")
    if not isinstance(end, str):
        raise FieldError(f"{field}.end", f"must be a string, got {kind_of(end)}")
    return _literal(end)


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FieldError(field, f"must be an object, got {kind_of(value)}")
    return value


def _items(given: Mapping[str, Any], name: str, field: str) -> list[tuple[Mapping[str, Any], str]]:
    values = given.get(name)
    if not isinstance(values, list) or not values:
        raise FieldError(f"{field}.{name}", "must be an array with at least one object")
    return [(_object(item, f"{field}.{name}[{n}]"), f"{field}.{name}[{n}]") for n, item in enumerate(values)]


def _texts(given: Mapping[str, Any], name: str, field: str) -> tuple[str, ...]:
    values = given.get(name)
    if not isinstance(values, list) or not values or not all(isinstance(v, str) and v for v in values):
        raise FieldError(f"{field}.{name}", "must be an array with at least one text, none of them empty")
    return tuple(dict.fromkeys(values))


def _text(given: Mapping[str, Any], name: str, field: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        got = "an empty text" if value == "" else kind_of(value)
        raise FieldError(f"{field}.{name}", f"must be a text that is not empty, got {got}")
    return value
