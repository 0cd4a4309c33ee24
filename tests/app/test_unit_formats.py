"""Response formats: what each type asks for, and what contradicts it."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.apis.openai.formats import format_schema, format_text, kind_of_format
from llmserve.server.refusals import FieldError

SCHEMA = {"type": "object", "properties": {"z": {}, "a": {}}}
# Properties keep their order.
TEXT = '{"type":"object","properties":{"z":{},"a":{}}}'
ANY_OBJECT = '{"type":"object"}'


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"type": "json_object"}, ANY_OBJECT),
        ({"type": "json_object", "schema": None}, ANY_OBJECT),
        ({"type": "json_object", "schema": {}}, ANY_OBJECT),
        ({"type": "json_object", "schema": True}, ANY_OBJECT),
        ({"type": "json_object", "schema": {"type": "array"}}, '{"type":"array"}'),
        ({"type": "json_object", "schema": SCHEMA}, TEXT),
        ({"type": "json_object", "json_schema": {"schema": SCHEMA}}, TEXT),
        ({"type": "json_object", "value": SCHEMA}, TEXT),
        ({"type": "json", "value": TEXT}, TEXT),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, TEXT),
        ({"type": "json_schema", "name": "n", "schema": SCHEMA}, TEXT),
    ],
    ids=str,
)
def test_schemas(given: dict[str, Any], text: str) -> None:
    assert kind_of_format(given, "text.format") == given["type"]
    assert format_schema(given, "text.format") == text


@pytest.mark.parametrize("name", ["pattern", "regex", "value"])
def test_texts(name: str) -> None:
    given = {"type": "regex", name: "a+"}
    assert kind_of_format(given, "response_format") == "regex"
    assert format_text(given, "response_format") == "a+"
    for wrong in ("", 5):
        with pytest.raises(FieldError) as caught:
            format_text({"type": "regex", name: wrong}, "response_format")
        assert caught.value.field == f"response_format.{name}"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "f.type"),
        ({"type": "xml"}, "f.type"),
        ({"type": ["text"]}, "f.type"),
        ({"type": "text", "schema": SCHEMA}, "f.schema"),
        ({"type": "text", "grammar": "a"}, "f.grammar"),
        ({"type": "regex", "pattern": "a", "grammar": "b"}, "f.grammar"),
        ({"type": "regex", "pattern": "a", "value": "b"}, "f.value"),
        ({"type": "json_object", "schema": SCHEMA, "json_schema": {"schema": SCHEMA}}, "f.json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}, "pattern": "a"}, "f.pattern"),
        ({"type": "structural_tag", "format": {}, "regex": "a"}, "f.regex"),
    ],
    ids=str,
)
def test_contradictions(given: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        kind_of_format(given, "f")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("given", "field", "is_flat"),
    [
        ({"type": "json_schema"}, "f.json_schema", False),
        ({"type": "json_schema"}, "f.schema", True),
        ({"type": "json_schema", "json_schema": []}, "f.json_schema", False),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, "f.json_schema.schema", False),
        ({"type": "json_schema", "json_schema": {"schema": []}}, "f.json_schema.schema", False),
        ({"type": "json_object", "schema": 5}, "f.schema", False),
        ({"type": "json", "value": "{"}, "f.value", False),
    ],
    ids=str,
)
def test_wrong_schemas(given: dict[str, Any], field: str, is_flat: bool) -> None:
    with pytest.raises(FieldError) as caught:
        format_schema(given, "f", is_flat=is_flat)
    assert caught.value.field == field


def test_all_types_are_named() -> None:
    with pytest.raises(FieldError, match="text, json_object, json_schema, regex, grammar or structural_tag"):
        kind_of_format({}, "f")
