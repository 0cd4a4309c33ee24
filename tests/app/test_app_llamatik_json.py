"""JSON of `/v1/generation`: whole and valid at every budget, refused before it begins, and cancelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from serving import Llamatik, Server, read_metrics, serve_in_process, wait_until
from serving.llamatik import joined, parsed, rest

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}
PROMPT = "Extract city and country from: I live in Barcelona, Spain."
SCHEMAS: dict[str, Any] = {
    "city": CITY,
    "order": {
        "type": "object",
        "properties": {"z_reason": {"type": "string"}, "a_answer": {"type": "boolean"}},
        "required": ["z_reason", "a_answer"],
    },
    "pydantic": {
        "$defs": {
            "Kind": {"enum": ["cat", "dog"]},
            "Pet": {
                "type": "object",
                "properties": {"kind": {"$ref": "#/$defs/Kind"}, "age": {"type": "integer", "minimum": 0}},
                "required": ["kind", "age"],
            },
        },
        "type": "object",
        "properties": {"pets": {"type": "array", "items": {"$ref": "#/$defs/Pet"}, "minItems": 1}},
        "required": ["pets"],
    },
    "nullable": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
    "enum": {"enum": ["yes", "no", "perhaps"]},
}
ESSAY: dict[str, Any] = {
    "type": "object",
    "properties": {"essay": {"type": "string", "minLength": 60}},
    "required": ["essay"],
}


@pytest.fixture(scope="module")
def running(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One sequence, so that a second request waits."""
    env = {"LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_CONTEXT_LENGTH": "1024"}
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model, env=env) as running:
        yield running


@pytest.fixture
def api(running: Server, tiny_model: Path) -> Llamatik:
    api = Llamatik(running)
    api.init(tiny_model)
    api.ok("session/reset")
    return api


def check(schema: Any, text: str) -> Any:
    document = json.loads(text)
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    return document


def budget_of(api: Llamatik, schema: Any) -> int:
    """The smallest budget that the server promises."""
    answer = api.post("generateJson", {"prompt": PROMPT, "jsonSchema": schema, "maxTokens": 1})
    if answer.status == 200:
        return 1
    assert answer.status == 400
    found = re.fullmatch(
        r"maxTokens: the shortest document takes (\d+) tokens, but only 1 may .*", answer.json["error"]
    )
    assert found is not None, answer.text
    return int(found[1])


@pytest.mark.parametrize("name", SCHEMAS)
def test_documents_are_whole_at_every_budget(api: Llamatik, name: str) -> None:
    schema = SCHEMAS[name]
    minimum = budget_of(api, schema)
    for surplus, temperature in ((0, 0), (1, 1), (3, 0.7), (10, 1.5), (60, 0.7)):
        limits = {"maxTokens": minimum + surplus, "temperature": temperature, "seed": surplus}
        fields = {"prompt": PROMPT, "jsonSchema": json.dumps(schema), **limits}
        answer = api.whole("generateJson", **fields)
        document = check(schema, answer["text"])
        assert answer["usage"]["completionTokens"] <= minimum + surplus
        assert joined(api.stream("jsonStream", **fields)) == answer["text"]
        if isinstance(document, dict):  # as the schema orders them
            wanted = [key for key in schema["properties"] if key in document]
            assert [key for key in document if key in schema["properties"]] == wanted
    if minimum > 1:
        for route in ("generateJson", "jsonStream"):
            body = {"prompt": PROMPT, "jsonSchema": schema, "maxTokens": minimum - 1}
            answer_below = api.post(route, body)
            assert answer_below.status == 400
            assert f"takes {minimum} tokens" in answer_below.json["error"]


def test_a_document_that_had_to_be_closed_says_length(api: Llamatik) -> None:
    fields = {"prompt": "An essay", "jsonSchema": ESSAY, "temperature": 0, "maxTokens": budget_of(api, ESSAY)}
    answer = api.whole("generateJson", **fields)
    check(ESSAY, answer["text"])
    assert answer["finishReason"] == "length"
    assert api.stream("jsonStream", **fields)[-1]["finishReason"] == "length"


def test_the_context_bounds_the_budget_too(api: Llamatik) -> None:
    long = {"prompt": " sea" * 1015, "maxTokens": 1000, "temperature": 0}
    answer = api.post("generateJson", {**long, "jsonSchema": ESSAY})
    assert answer.status == 400
    assert re.search(r"the shortest document takes \d+", answer.json["error"])
    near = api.whole("generateJson", **{**long, "prompt": " sea" * 980}, jsonSchema=CITY)
    check(CITY, near["text"])


def test_any_value_without_a_schema(api: Llamatik) -> None:
    absent: list[dict[str, Any]] = [{}, {"jsonSchema": None}, {"jsonSchema": "true"}, {"jsonSchema": {}}]
    for fields in absent:
        answer = api.whole(
            "generateJson", prompt="A JSON list of fruits:", temperature=0, maxTokens=30, **fields
        )
        json.loads(answer["text"])


def test_three_documents_on_one_session_and_then_words(api: Llamatik) -> None:
    num_tokens = 0
    for _ in range(3):
        answer = api.whole(
            "generateJsonWithContext",
            systemPrompt="Extract.",
            userPrompt=PROMPT,
            jsonSchema=CITY,
            maxTokens=40,
        )
        check(CITY, answer["text"])
        usage = answer["usage"]
        num_tokens = usage["promptTokens"] + usage["completionTokens"]
    # The tail of a document has no cells; the session goes on from them all the same.
    further = api.whole("continue", prompt="And the river?", maxTokens=5, temperature=0)
    assert further["usage"]["promptTokens"] > num_tokens
    assert further["usage"]["cachedTokens"] > 0


def test_narrow_sampling_does_not_break_the_grammar(api: Llamatik) -> None:
    for fields in ({"topK": 1}, {"topP": 0.01}, {"minP": 0.9}, {"temperature": 0}, {"repeatPenalty": 5}):
        check(CITY, api.text("generateJson", prompt=PROMPT, jsonSchema=CITY, maxTokens=40, **fields))


def test_stop_texts_have_no_effect_and_are_named(api: Llamatik) -> None:
    body = {"prompt": PROMPT, "jsonSchema": CITY, "maxTokens": 40, "stop": ['"']}
    for route in ("generateJson", "jsonStream"):
        answer = api.post(route, body)
        assert answer.status == 200
        assert answer.header("x-llmserve-ignored") == "stop"


@pytest.mark.parametrize("route", ["generateJson", "jsonStream"])
@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ("nojson", "is not valid JSON"),
        ("", "is not valid JSON"),
        ("5", "must be an object or a boolean, got a number"),
        ("[]", "must be an object or a boolean"),
        ("false", "allows no document"),
        ({"type": "strin"}, "`type` at the root"),
        ({"type": "object", "properties": {"a": "str"}}, "/properties/a"),
        (
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=a)b"}}},
            "`pattern` at /properties/a",
        ),
        ({"type": "string", "minLength": 5, "maxLength": 2}, ""),
    ],
)
def test_schemas_that_cannot_be_are_refused(api: Llamatik, route: str, schema: object, part: str) -> None:
    answer = api.post(route, {"prompt": PROMPT, "jsonSchema": schema})
    assert answer.status == 400
    assert answer.header("content-type") == "application/json"
    assert answer.json["error"].startswith("jsonSchema")
    assert part in answer.json["error"]


def test_a_cancelled_document_is_closed_once_it_has_begun(
    api: Llamatik, running: Server, tiny_model: Path
) -> None:
    label = f'llmserve_completion_tokens_total{{model="{tiny_model.stem}"}}'
    body = {
        "prompt": "An essay",
        "jsonSchema": {"type": "array", "items": {"type": "string"}, "minItems": 300},
        "maxTokens": 1900,
        "temperature": 0,
    }
    tokens = read_metrics(running.port)[label]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(api.post, "generateJson", body)
        wait_until(lambda: read_metrics(running.port)[label] > tokens + 3)
        api.ok("cancel")
        answer = future.result()
    assert answer.status == 200, answer.text
    check(body["jsonSchema"], answer.json["text"])
    assert answer.json["finishReason"] == "cancelled"
    with api.open("jsonStream", **body) as stream:
        stream.read_head()
        lines = stream.lines()
        first = parsed(next(lines))
        api.ok("cancel")
        made = [first, *rest(lines)]
    check(body["jsonSchema"], joined(made))
    assert made[-1]["finishReason"] == "cancelled"


def test_a_document_that_is_cancelled_in_the_queue_is_409(
    api: Llamatik, running: Server, tiny_model: Path
) -> None:
    label = f'{{model="{tiny_model.stem}"}}'
    body = {"prompt": PROMPT, "jsonSchema": CITY, "maxTokens": 40}
    with api.open("stream", prompt="Once", maxTokens=1900, temperature=0, sessionId="busy") as stream:
        stream.read_head()
        next(stream.lines())
        with api.open("jsonStream", **body) as waiting, ThreadPoolExecutor(1) as pool:
            # Accepted into the queue, so its stream has begun.
            assert waiting.read_head()[0] == 200
            one_shot = pool.submit(api.post, "generateJson", {**body, "sessionId": "other"})
            wait_until(lambda: read_metrics(running.port)[f"llmserve_requests_waiting{label}"] == 2)
            api.ok("cancel")
            api.ok("cancel", {"sessionId": "other"})
            message = "the call was cancelled before it had a whole document"
            assert rest(waiting.lines()) == [{"event": "error", "message": message}]
            answer = one_shot.result()
            assert (answer.status, answer.json) == (409, {"error": message})
