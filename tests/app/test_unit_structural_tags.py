"""Structural tags as grammars."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.grammars.requested import MAX_GRAMMAR_BYTES
from llmserve.server.grammars.structural_tags import MAX_LEVELS, structural_tag_to_lark
from llmserve.server.refusals import FieldError

OPTIONS = '"x-guidance":{"whitespace_flexible":false,"item_separator":",","key_separator":":"}'
ANY = f"%json {{{OPTIONS}}}"
TEXT = r"TEXT: /(\n|.)+/"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


def structure(begin: str, end: str = "</f>", schema: Any = True) -> dict[str, Any]:
    return {"begin": begin, "schema": schema, "end": end}


def tag(begin: str, end: str = "</f>", **content: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content or {"type": "any_text"}, "end": end}


def lines(given: dict[str, Any]) -> list[str]:
    start, *rules, text = structural_tag_to_lark({"type": "structural_tag", **given}, "f").split("\n")
    assert text == TEXT
    return [start, *rules]


def test_the_older_form() -> None:
    structures = [structure("<f=a>", schema=CITY), structure("<f=b>"), structure("[g]", "[/g]")]
    assert lines({"structures": structures, "triggers": ["<f=", "[g]"]}) == [
        'start:  (r3 ("a>" r0 "</f>" | "b>" r1 "</f>") | r4 ( r2 "[/g]"))* TEXT?',
        f'r0: %json {{"type":"object","properties":{{"city":{{"type":"string"}}}},{OPTIONS}}}',
        f"r1: {ANY}",
        f"r2: {ANY}",
        r'r3[lazy]: /(\n|.)*/ "<f="',
        r'r4[lazy]: /(\n|.)*/ "[g]"',
    ]


@pytest.mark.parametrize(
    ("flags", "start"),
    [
        ({}, 'start:  (r2 ("a>" r0 "</f>" | "b>" r1))* TEXT?'),
        (
            {"at_least_one": True},
            'start: ("<a>" r0 "</f>" | "<b>" r1) (r2 ("a>" r0 "</f>" | "b>" r1))* TEXT?',
        ),
        ({"stop_after_first": True}, 'start: ((r2 ("a>" r0 "</f>" | "b>" r1)) | TEXT)?'),
        ({"at_least_one": True, "stop_after_first": True}, 'start: ("<a>" r0 "</f>" | "<b>" r1)'),
    ],
    ids=str,
)
def test_triggered_tags(flags: dict[str, Any], start: str) -> None:
    tags = [tag("<a>", type="json_schema", json_schema=True), tag("<b>")]
    made = lines({"format": {"type": "triggered_tags", "tags": tags, "triggers": ["<"], **flags}})
    assert made == [start, f"r0: {ANY}", r'r1[lazy]: /(\n|.)*/ "</f>"', r'r2[lazy]: /(\n|.)*/ "<"']


def test_formats_in_formats() -> None:
    yes, digits = {"type": "const_string", "value": 'say "yes"'}, {"type": "regex", "pattern": r"a/b\/[0-9]"}
    sequence = {"type": "sequence", "elements": [yes, {"type": "or", "elements": [yes, digits]}]}
    assert lines({"format": sequence}) == [
        r'start: ("say \"yes\"" ("say \"yes\"" | r0))',
        r"r0: /a\/b\/[0-9]/",
    ]
    separated = {"type": "tags_with_separator", "separator": ", ", "tags": [tag("<a>", **yes)]}
    one = r'(("<a>" "say \"yes\"" "</f>"))'
    assert lines({"format": separated}) == [f'start: (({one} (", " {one})*))?']
    assert lines({"format": {**separated, "at_least_one": True, "stop_after_first": True}}) == [
        f"start: {one}"
    ]


def nested(num_levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "const_string", "value": "a"}
    for _ in range(num_levels):
        made = {"type": "sequence", "elements": [made]}
    return made


def test_deep_formats() -> None:
    assert lines({"format": nested(MAX_LEVELS)})
    with pytest.raises(FieldError, match=f"must have at most {MAX_LEVELS} levels"):
        lines({"format": nested(MAX_LEVELS + 1)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "f.format must be an object, got null"),
        ({"format": {"type": "any_text"}}, "f.format.type must be triggered_tags"),
        ({"format": {"type": ["tag"]}}, "f.format.type must be"),
        ({"format": {"type": "const_string", "value": ""}}, "f.format.value must be a text that is not"),
        ({"format": {"type": "or", "elements": []}}, "f.format.elements must be an array with at least"),
        ({"format": {**tag("<a>"), "end": ["</a>"]}}, "f.format.end must be a text that is not empty"),
        (
            {
                "format": {
                    "type": "triggered_tags",
                    "tags": [tag("<a>")],
                    "triggers": ["<"],
                    "excludes": ["x"],
                }
            },
            "f.format.excludes is not supported",
        ),
        ({"structures": [structure("<a>")], "triggers": []}, "f.triggers must be an array with at least"),
        ({"structures": [structure("<a>")], "triggers": ["<b"]}, "f.triggers has none that begins '<a>'"),
        (
            {"structures": [structure("<a>")], "triggers": ["<a", "a"]},
            "f.triggers must not contain each other, got 'a'",
        ),
        ({"structures": ["x"], "triggers": ["a"]}, "f.structures[0] must be an object, got a string"),
        ({"structures": [structure("", "b")], "triggers": ["a"]}, "f.structures[0].begin must be"),
        ({"structures": [structure("a", schema=5)], "triggers": ["a"]}, "f.structures[0].schema must be"),
        (
            {"structures": [structure("a", "x" * MAX_GRAMMAR_BYTES)], "triggers": ["a"]},
            f"f must be at most {MAX_GRAMMAR_BYTES} bytes as a grammar",
        ),
    ],
)
def test_refusals(given: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as refused:
        structural_tag_to_lark(given, "f")
    assert str(refused.value).startswith(message)
