"""Arguments between tags: what each may be, and how its text becomes JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from llmserve.errors import GenerationError
from llmserve.server.conversation import Tool
from llmserve.server.conversation.argument_rules import (
    Argument,
    Choice,
    Document,
    FreeText,
    Number,
    QuotedText,
    Rule,
    arguments_of,
)
from llmserve.server.conversation.argument_values import ValueWriter, constraint_of, fitted
from llmserve.server.conversation.tool_formats import ArgumentTags, literal
from serving.tool_formats import GLM_XML, PYTHON, QWEN_XML

TEXT = {"type": "string"}
BOOLEAN = Choice((("true", "true"), ("false", "false"), ("True", "true"), ("False", "false")))


def rule(schema: Any, **root: Any) -> Rule:
    arguments = arguments_of({"type": "object", "properties": {"a": schema}, **root})
    assert arguments is not None
    return arguments[0].rule


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, FreeText()),
        ({"type": "string", "title": "T", "description": "D", "default": "x"}, FreeText()),
        ({"type": ["string", "null"]}, FreeText(is_nullable=True)),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, FreeText(is_nullable=True)),
        ({"type": "boolean"}, BOOLEAN),
        ({"type": "null"}, Choice((("null", "null"),))),
        (
            {"enum": ["a b", "ö", 1, True]},
            Choice((("a b", '"a b"'), ("ö", '"ö"'), ("1", "1"), ("true", "true"))),
        ),
        ({"type": "string", "enum": ["a", 1, None]}, Choice((("a", '"a"'),))),
        ({"type": "integer", "enum": [1, 2.0, 1.5, True]}, Choice((("1", "1"), ("2.0", "2.0")))),
        ({"const": "x"}, Choice((("x", '"x"'),))),
        ({"enum": ["1", 1]}, Choice((("1", '"1"'),))),
    ],
)
def test_rules(schema: Any, expected: Rule) -> None:
    assert rule(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "string", "pattern": "a"},
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "date"},
        {"type": "array", "items": TEXT},
        {"type": "object", "properties": {}},
        {"anyOf": [TEXT, {"type": "integer"}]},
        {"anyOf": [TEXT, {"type": "null"}, {"type": "null"}]},
        {"enum": [[1]]},
        # These could not be told from what is around them.
        {"enum": ["", "a"]},
        {"enum": ["a\n", "a"]},
        {"enum": [str(number) for number in range(1000)]},
        {"type": "string", "enum": []},
        {"type": "string", "enum": [1]},
        {"$ref": "#/$defs/missing"},
    ],
    ids=str,
)
def test_everything_else_is_json(schema: Any) -> None:
    found = rule(schema)
    assert isinstance(found, Document)
    assert json.loads(found.schema) == schema


def test_references_are_followed_and_definitions_come_along() -> None:
    defs = {"Unit": {"enum": ["c", "f"]}, "Again": {"$ref": "#/$defs/Unit"}, "Place": {"type": "object"}}
    assert rule({"$ref": "#/$defs/Again", "description": "D"}, **{"$defs": defs}) == Choice(
        (("c", '"c"'), ("f", '"f"'))
    )
    found = rule({"type": "array", "items": {"$ref": "#/$defs/Place"}}, **{"$defs": defs})
    assert isinstance(found, Document)
    assert json.loads(found.schema)["$defs"] == defs
    number = rule({"type": "integer", "minimum": 1})
    assert number == Number('{"type": "integer", "minimum": 1}')
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    assert isinstance(rule({"$ref": "#/$defs/a"}, **{"$defs": circle}), Document)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]},
        {"type": "object", "properties": {"a": TEXT}, "minProperties": 1},
        {"type": "object", "properties": {"a": TEXT}, "required": ["b"]},
        {"type": "object", "properties": {"a>b": TEXT}},
        {"type": "object", "properties": {"a\nb": TEXT}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"items": {"$dynamicRef": "#x"}}}},
    ],
    ids=str,
)
def test_other_schemas_are_one_object(schema: dict[str, Any]) -> None:
    assert arguments_of(schema) is None


def test_arguments_keep_their_order() -> None:
    assert arguments_of(Tool(name="f").schema) == ()
    schema = {"properties": {"b": TEXT, "a": TEXT}, "required": ["a"]}
    arguments = arguments_of(Tool(name="f", parameters=schema).schema)
    assert arguments is not None
    assert [(argument.name, argument.is_required) for argument in arguments] == [("b", False), ("a", True)]


@pytest.mark.parametrize(
    ("of", "pieces", "expected"),
    [
        (FreeText(), ["a", "", 'b"\n', "ö"], '"ab\\"\\nö"'),
        (FreeText(), [], '""'),
        (FreeText(), ["null"], '"null"'),
        (FreeText(is_nullable=True), ["nu", "ll"], "null"),
        (FreeText(is_nullable=True), ["nu", "ll", "s"], '"nulls"'),
        (FreeText(is_nullable=True), ["nu"], '"nu"'),
        (FreeText(is_nullable=True), ["x"], '"x"'),
        (FreeText(is_nullable=True), [], '""'),
        (BOOLEAN, ["Tr", "ue\n"], "true"),
        # Cut short by the budget.
        (BOOLEAN, ["fa"], "false"),
        (Choice((("a", '"a"'), ("ab", '"ab"'))), ["ab\n"], '"ab"'),
        (Choice((("a", '"a"'), ("ab", '"ab"'))), ["a\n"], '"a"'),
        (Number("{}"), ["1", "2\n"], "12"),
        (Document("{}"), ["[1", "]"], "[1]"),
        (QuotedText("'"), ["it", "\\", "'s", " a\\", "n\\\\", "'"], '"it\'s a\\n\\\\"'),
        (QuotedText("'"), ["'"], '""'),
        (QuotedText('"'), ['\\"', '"'], '"\\""'),
    ],
)
def test_values_become_json(of: Rule, pieces: list[str], expected: str) -> None:
    writer = ValueWriter(of)
    shown = "".join([writer.push(piece) for piece in pieces])
    assert shown + writer.end().json == expected
    assert json.loads(expected) is not Ellipsis


@pytest.mark.parametrize(("of", "text"), [(BOOLEAN, "x\n"), (Number("{}"), "-"), (Number("{}"), "1e\n")])
def test_what_is_no_value_is_a_fault(of: Rule, text: str) -> None:
    writer = ValueWriter(of)
    writer.push(text)
    with pytest.raises(GenerationError):
        writer.end()


def test_constraints_end_with_what_follows() -> None:
    for format_, follower in ((QWEN_XML, "\n"), (GLM_XML, "<")):
        assert format_.tags is not None
        pattern = constrained(Choice((("a.b", ""), ("c|d", ""))), format_.tags)["regex"]
        assert re.fullmatch(pattern, f"a.b{follower}")
        assert re.fullmatch(pattern, f"c|d{follower}")
        assert not re.fullmatch(pattern, f"axb{follower}")
        grammar = constrained(Number("{}"), format_.tags)["grammar"]
        assert grammar.startswith(f"start: value ({json.dumps(follower)})\n")
        assert constrained(FreeText(), format_.tags) == {}


def constrained(of: Rule, tags: ArgumentTags, kind: str | None = "string") -> dict[str, str]:
    return constraint_of(fitted(Argument("a", True, of, kind), tags), tags)


def test_values_that_nothing_closes_end_with_the_separator_or_the_end() -> None:
    assert PYTHON.tags is not None
    pattern = constrained(BOOLEAN, PYTHON.tags, "boolean")["regex"]
    assert [text for text in ("true,", "True)", "true", "true'") if re.fullmatch(pattern, text)] == [
        "true,",
        "True)",
    ]
    grammar = constrained(Number("{}"), PYTHON.tags, "integer")["grammar"]
    assert grammar.startswith('start: value ("," | ")")\n')


def test_strings_in_quotation_marks() -> None:
    assert PYTHON.tags is not None
    pattern = constrained(FreeText(), PYTHON.tags)["regex"]
    for text in ("'", "a b'", r"it\'s'", r"a\\'", 'a"b' + "'"):
        assert re.fullmatch(pattern, text), text
    for text in ("", "a", r"it\'", "a'b'", "a\nb'"):
        assert not re.fullmatch(pattern, text), text
    choice = fitted(Argument("a", True, Choice((("it's", '"it\'s"'),))), PYTHON.tags)
    assert choice.rule == Choice(((r"it\'s", '"it\'s"'),))
    mixed = fitted(Argument("a", True, Choice((("x", '"x"'), ("1", "1"))), None), PYTHON.tags)
    assert mixed.rule == Choice((('"x"', '"x"'), ("1", "1")))


def test_literals() -> None:
    text = 'a.b\\c+*?()|[]{}^$ <name="x">\n\ny'
    assert re.fullmatch(literal(text), text)
