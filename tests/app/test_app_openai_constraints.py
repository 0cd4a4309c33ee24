"""Constraints in the spellings of other servers, on a real server process."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from serving import ServerProcess, post
from serving.openai_requests import CAPITAL, MODEL, chat, complete, text_of

pytestmark = pytest.mark.model

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
GBNF = 'root ::= "Paris" | "Rome"'
CITY = re.compile("Paris|Rome")
ODD = ["a|b", "c.d", "(e)*", "f\\g", "1-2 & 3~4 #5"]

OPTIONS: dict[str, Any] = {"temperature": 2, "seed": 3, "max_tokens": 30}


def native(server: ServerProcess, **body: Any) -> str:
    return str(text_of(post(server.port, "/completion", {"prompt": CAPITAL, **OPTIONS, **body})))


def completed(server: ServerProcess, **body: Any) -> str:
    return text_of(complete(server, **{**OPTIONS, **body}))


def chatted(server: ServerProcess, **body: Any) -> str:
    return text_of(chat(server, **{**OPTIONS, **body}))


def responded(server: ServerProcess, **body: Any) -> str:
    whole = {"model": MODEL, "input": "Where?", "temperature": 2, "seed": 3, "max_output_tokens": 30, **body}
    return text_of(post(server.port, "/v1/responses", whole))


@pytest.mark.parametrize("ask", [completed, chatted, responded, native])
@pytest.mark.parametrize(
    "body",
    [
        {"structured_outputs": {"regex": "Paris|Rome"}},
        {"structured_outputs": {"choice": ["Paris", "Rome"]}},
        {"structured_outputs": {"grammar": GBNF}},
        {"guided_regex": "Paris|Rome"},
        {"guided_choice": ["Paris", "Rome"]},
        {"guided_grammar": GBNF},
        {"regex": "Paris|Rome"},
        {"ebnf": GBNF},
        # Two that ask for the same.
        {"guided_choice": ["Paris", "Rome"], "structured_outputs": {"choice": ["Paris", "Rome"]}},
    ],
    ids=str,
)
def test_texts(server: ServerProcess, ask: Any, body: dict[str, Any]) -> None:
    assert CITY.fullmatch(ask(server, **body))


@pytest.mark.parametrize("ask", [completed, chatted, responded, native])
@pytest.mark.parametrize(
    "body",
    [
        {"structured_outputs": {"json": SCHEMA}},
        {"structured_outputs": {"json": json.dumps(SCHEMA)}},
        {"guided_json": SCHEMA},
        {"json_schema": SCHEMA},
        {"json_schema": json.dumps(SCHEMA)},
    ],
    ids=str,
)
def test_documents(server: ServerProcess, ask: Any, body: dict[str, Any]) -> None:
    assert json.loads(ask(server, **body))["city"] in ("Paris", "Rome")


LARK_OF_GUIDANCE = '%llguidance {}\n\nstart: a\na[capture]: A\n\nA: "Paris"\n     | "Rome"\n\n'


@pytest.mark.parametrize(
    "body",
    [
        # outlines 1.3, `from_vllm` and `from_sglang`, of a `Literal` and of a grammar.
        {"structured_outputs": {"regex": "(Paris|Rome)"}},
        {"structured_outputs": {"grammar": 'start: "Paris" | "Rome"'}},
        {"ebnf": 'start: "Paris" | "Rome"'},
        # guidance 0.3, its models of vLLM and SGLang: one grammar under two names.
        {
            "guided_decoding_backend": "guidance",
            "guided_grammar": LARK_OF_GUIDANCE,
            "structured_outputs": {"grammar": LARK_OF_GUIDANCE},
        },
        {"ebnf": LARK_OF_GUIDANCE},
    ],
    ids=str,
)
def test_bodies_of_other_clients(server: ServerProcess, body: dict[str, Any]) -> None:
    assert CITY.fullmatch(chatted(server, **body))


@pytest.mark.parametrize("ask", [completed, chatted, native])
@pytest.mark.parametrize(
    "given",
    [
        {"type": "regex", "pattern": "Paris|Rome"},
        {"type": "regex", "value": "Paris|Rome"},
        {"type": "grammar", "grammar": GBNF},
    ],
    ids=str,
)
def test_formats_of_other_servers(server: ServerProcess, ask: Any, given: dict[str, Any]) -> None:
    assert CITY.fullmatch(ask(server, response_format=given))


def test_a_format_with_a_schema_as_value(server: ServerProcess) -> None:
    made = completed(server, response_format={"type": "json", "value": SCHEMA})
    assert json.loads(made)["city"] in ("Paris", "Rome")
    assert CITY.fullmatch(responded(server, text={"format": {"type": "regex", "pattern": "Paris|Rome"}}))
    assert json.loads(completed(server, structured_outputs={"json_object": True})) is not None


def test_choices_are_literal(server: ServerProcess) -> None:
    for text in ODD:
        assert completed(server, guided_choice=[text]) == text
    assert completed(server, structured_outputs={"choice": ODD}) in ODD


# A space begins a tag, so the model soon writes one.
TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": " <city>", "schema": SCHEMA, "end": "</city>"}],
    "triggers": [" "],
}
UNKNOWN = {"begin": " ", "schema": {"type": "color"}, "end": ""}
TAGGED = re.compile(r"[^ ]*( <city>(\{[^<]*\})</city>[^ ]*)+")


@pytest.mark.parametrize("ask", [completed, chatted, native])
@pytest.mark.parametrize(
    "body",
    [
        {"response_format": TAGS},
        {"structured_outputs": {"structural_tag": json.dumps(TAGS)}},
        {"structural_tag": json.dumps(TAGS)},
    ],
    ids=["format", "vllm", "sglang"],
)
def test_structural_tags(server: ServerProcess, ask: Any, body: dict[str, Any]) -> None:
    made = ask(server, **body, stop="</city>", temperature=0, max_tokens=60) + "</city>"
    found = TAGGED.fullmatch(made)
    assert found, made
    assert json.loads(found[2])["city"] in ("Paris", "Rome")


def test_the_newer_form_of_structural_tags(server: ServerProcess) -> None:
    closed = {**SCHEMA, "additionalProperties": False}
    city = {"type": "tag", "begin": "<c>", "content": {"type": "json_schema", "json_schema": closed}}
    tags = [
        {**city, "end": "</c>"},
        {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "!"},
    ]
    kind = {"type": "triggered_tags", "triggers": ["<"], "tags": tags}
    only = {**kind, "at_least_one": True, "stop_after_first": True}
    given = {"type": "structural_tag", "format": only}
    assert re.fullmatch(
        "<c>.*</c>|<t>[^!]*!", chatted(server, response_format=given, max_tokens=200), re.DOTALL
    )
    made = responded(server, text={"format": given}, max_output_tokens=200)
    assert re.fullmatch("<c>.*</c>|<t>[^!]*!", made, re.DOTALL)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"regex": "a", "guided_regex": "b"}, "guided_regex", "cannot be used with regex"),
        ({"grammar": GBNF, "json_schema": SCHEMA}, "grammar", "cannot be used with json_schema"),
        (
            {"guided_choice": ["a"], "response_format": {"type": "json_object"}},
            "guided_choice",
            "cannot be used with response_format",
        ),
        (
            {"structured_outputs": {"regex": "a", "json": SCHEMA}},
            "structured_outputs.regex",
            "cannot be used with structured_outputs.json",
        ),
        (
            {"structured_outputs": {"structural_tag": "{}"}},
            "structured_outputs.structural_tag.format",
            "must be an object",
        ),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "at least one"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex", ""),
        ({"response_format": {"type": "regex", "pattern": "("}}, "response_format.pattern", ""),
        ({"response_format": {"type": "regex", "value": "("}}, "response_format.value", ""),
        ({"response_format": {"type": "grammar", "grammar": "start: ("}}, "response_format.grammar", ""),
        ({"structured_outputs": {"jsonn": {}}}, "structured_outputs.jsonn", "not a field"),
        ({"structural_tag": {}}, "structural_tag.format", "must be an object"),
        ({"response_format": {"type": "regex"}}, "response_format.pattern", "is required"),
        ({"response_format": {"type": "structural_tag"}}, "response_format.format", "must be an object"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "structural_tag"),
        ({"structural_tag": {**TAGS, "structures": [UNKNOWN]}}, "structural_tag", ""),
        ({"guided_regex": "("}, "guided_regex", ""),
        ({"guided_json": "{"}, "guided_json", "is not valid JSON"),
        ({"guided_choice": ["a", 5]}, "guided_choice[1]", "must be a string"),
        ({"ebnf": "root ::= ("}, "ebnf", "is not valid GBNF"),
    ],
    ids=str,
)
@pytest.mark.parametrize("ask", [complete, chat])
def test_refusals(server: ServerProcess, ask: Any, body: dict[str, Any], param: str, words: str) -> None:
    answer = ask(server, **body)
    assert answer.status == 400, answer.text
    assert answer.json["error"]["param"] == param
    assert words in answer.json["error"]["message"]
