"""Output that a JSON Schema constrains: every document parses and validates, whatever its budget."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import anyio
import jsonschema
import pydantic
import pytest

from json_schemas import SCHEMAS
from llmserve import (
    BudgetTooSmallError,
    Completion,
    ContextExceededError,
    DocumentTooLongError,
    Engine,
    InvalidParameterError,
    SamplingParams,
)
from loops import one_loop

pytestmark = pytest.mark.anyio

# What is left beyond the shortest document.
SURPLUSES = (0, 1, 2, 3, 5, 8, 13, 21, 40)


def check(schema: Any, completion: Completion) -> Any:
    """The document of a completion, which must be whole."""
    document = json.loads(completion.text)
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    assert completion.is_complete
    assert b"".join(token.bytes for token in completion.tokens).decode() == completion.text
    return document


async def minimum_of(engine: Engine, schema: Any) -> int:
    """Tokens of the shortest document."""
    try:
        completion = await engine.generate("x", json_schema=json.dumps(schema), max_tokens=1)
    except BudgetTooSmallError as error:
        assert error.budget == 1
        assert f"{error.minimum} tokens" in str(error)
        return error.minimum
    check(schema, completion)
    return 1


@one_loop
@pytest.mark.parametrize("name", SCHEMAS)
async def test_every_document_is_whole_at_every_budget(tiny: Engine, name: str) -> None:
    schema = SCHEMAS[name]
    minimum = await minimum_of(tiny, schema)

    async def generate(surplus: int, seed: int) -> Completion:
        params = SamplingParams(
            json_schema=json.dumps(schema), max_tokens=minimum + surplus, temperature=1.0, seed=seed
        )
        if seed == 1:
            return await tiny.generate("A document: ", params)
        async with tiny.stream("A document: ", params) as stream:
            texts = [delta.text async for delta in stream]
            completion = await stream.result()
        assert "".join(texts) == completion.text
        return completion

    cases = list(itertools.product(SURPLUSES, (1, 2)))
    for (surplus, _), completion in zip(cases, await gather(generate, cases), strict=True):
        check(schema, completion)
        assert completion.usage.completion_tokens <= minimum + surplus


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 0.01},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.0000001},
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1}},
    ],
)
async def test_numbers_at_the_ends_of_their_ranges(tiny: Engine, schema: Any) -> None:
    async def generate(seed: int) -> Completion:
        params = SamplingParams(json_schema=schema, max_tokens=40, temperature=1.3, seed=seed)
        return await tiny.generate("0", params)

    for completion in await gather(generate, [(seed,) for seed in range(30)]):
        check(schema, completion)


async def gather(call: Any, cases: list[Any]) -> list[Any]:
    """The calls of all cases at once, in any event loop."""
    results: list[Any] = [None] * len(cases)

    async def run(index: int) -> None:
        results[index] = await call(*cases[index])

    async with anyio.create_task_group() as group:
        for index in range(len(cases)):
            group.start_soon(run, index)
    return results


@pytest.mark.model
@one_loop
async def test_a_real_model_fills_every_schema(engine: Engine) -> None:
    names = list(SCHEMAS)

    async def generate(name: str) -> Completion:
        schema = json.dumps(SCHEMAS[name])
        minimum = await minimum_of(engine, SCHEMAS[name])
        return await engine.generate("An example:\n", json_schema=schema, max_tokens=minimum + 8)

    for name, completion in zip(names, await gather(generate, [(name,) for name in names]), strict=True):
        check(SCHEMAS[name], completion)
        assert completion.finish_reason in ("stop", "length")


@pytest.mark.model
async def test_a_stream_gives_the_text_of_the_whole(engine: Engine) -> None:
    params = SamplingParams(json_schema=SCHEMAS["person"], max_tokens=80, temperature=0.8, seed=5)
    whole = await engine.generate("A person: ", params)
    async with engine.stream("A person: ", params) as stream:
        texts = [delta.text async for delta in stream]
    assert "".join(texts) == whole.text
    check(SCHEMAS["person"], whole)


@pytest.mark.model
async def test_forced_tokens_take_fewer_steps_than_tokens(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in ("first_long_name", "second_long_name")},
        "required": ["first_long_name", "second_long_name"],
        "additionalProperties": False,
    }
    before = engine.stats()
    completion = await engine.generate("x", json_schema=schema, max_tokens=100)
    after = engine.stats()
    assert set(check(schema, completion)) == {"first_long_name", "second_long_name"}
    assert completion.finish_reason == "stop"
    assert after.steps - before.steps <= completion.usage.completion_tokens // 2


async def test_the_context_is_a_budget_too(tiny: Engine) -> None:
    schema = {"type": "array", "items": {"const": "a long text that fills the context"}, "minItems": 400}
    for max_tokens in (None, 5000):
        with pytest.raises(DocumentTooLongError) as refused:
            await tiny.generate("x", json_schema=schema, max_tokens=max_tokens)
        error = refused.value
        assert error.prompt_tokens + error.budget == error.context_length == 2048 < error.minimum
    with pytest.raises(DocumentTooLongError) as refused:
        await tiny.generate("x", json_schema=schema, max_total_tokens=50)
    assert refused.value.context_length == 50
    with pytest.raises(BudgetTooSmallError) as small:
        await tiny.generate("x", json_schema=schema, max_tokens=50)
    assert small.value.budget == 50
    long_prompt = "x " * 900
    completion = await tiny.generate(long_prompt, json_schema={"type": "array"}, temperature=1.0, seed=1)
    check({"type": "array"}, completion)
    with pytest.raises(ContextExceededError):
        await tiny.generate("x " * 5000, json_schema=True)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "strin"}, ["type"]),
        ({"properties": {"a": "string"}}, ["/properties/a"]),
        ("5", ["number"]),
        ("[]", []),
        ("null", []),
        ("x", ["JSON"]),
        ('"x"', []),
        ({"not": {"pattern": "a[a-c]{12}$"}}, ["not"]),
        ({"properties": {"a": {"not": {"multipleOf": 3}}}}, ["not", "/properties/a"]),
        ({"type": "array", "uniqueItems": 5}, ["uniqueItems"]),
        ({"type": "array", "contains": {}, "minContains": 9}, ["minContains"]),
        ({"type": "object", "propertyNames": {"maxLength": 900, "pattern": "a"}}, ["propertyNames"]),
        ({"$ref": "https://example.com/schema.json"}, ["$ref"]),
        ({"$ref": "#/$defs/missing"}, ["$ref"]),
        ({"type": "string", "pattern": "^+[a-z]$"}, ["pattern"]),
        ({"type": "string", "pattern": "^{2}x$"}, ["pattern"]),
        ({"type": "string", "pattern": "["}, ["pattern"]),
        ({"type": "string", "pattern": "(?<=a)*"}, ["pattern"]),
        ({"type": "string", "pattern": "a{3,1}"}, ["pattern"]),
        ({"enum": []}, ["enum"]),
        ({"type": "integer", "minimum": 5, "maximum": 4}, []),
        (False, []),
        ({"type": "string", "minLength": -1}, ["minLength"]),
        ({"required": "name"}, ["required"]),
        ('{"const": 12345678901234567890123}', ["12345678901234567890123", "digits"]),
        ('{"enum": [0.10000000000000000000001]}', ["digits"]),
        ({"type": "string", "pattern": "(a|b|ab)*c{10}(x{1,50}){1,50}"}, ["pattern"]),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_keyword_and_path(
    tiny: Engine, schema: Any, words: list[str]
) -> None:
    with pytest.raises(InvalidParameterError) as refused:
        await tiny.generate("x", json_schema=schema, max_tokens=100)
    assert refused.value.field == "json_schema"
    assert refused.value.code == "invalid_constraint"
    message = str(refused.value)
    assert message.startswith("json_schema: ")
    assert "\n" not in message
    assert len(message) < 400
    for word in words:
        assert word in message
    # The engine goes on.
    assert (await tiny.generate("x", json_schema={"const": 1}, max_tokens=5)).text == "1"


async def test_one_constraint_only() -> None:
    with pytest.raises(InvalidParameterError, match="regex"):
        SamplingParams(json_schema=True, regex="a")


async def test_a_finished_document_ends_in_spite_of_bans(tiny: Engine) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    params = SamplingParams(
        json_schema={**schema, "additionalProperties": False}, ignore_eos=True, min_tokens=50, max_tokens=60
    )
    completion = await tiny.generate("x", params)
    assert completion.finish_reason == "stop"
    assert list(check(schema, completion)) == ["a"]


async def test_stops_and_penalties_do_not_break_a_document(tiny: Engine) -> None:
    braces = await tiny.tokenize("}{", add_special=False)
    params = SamplingParams(
        json_schema=SCHEMAS["people"],
        max_tokens=120,
        stop=['"', "{", "name"],
        stop_token_ids=braces,
        temperature=1.0,
        top_k=1,
        top_p=0.01,
        min_p=0.9,
        repetition_penalty=2.0,
        no_repeat_ngram_size=2,
        seed=3,
    )
    check(SCHEMAS["people"], await tiny.generate("x", params))


async def test_logprobs_of_a_document(tiny: Engine) -> None:
    params = SamplingParams(json_schema=SCHEMAS["flat record"], max_tokens=60, logprobs=3)
    completion = await tiny.generate("x", params)
    check(SCHEMAS["flat record"], completion)
    sampled = [token for token in completion.tokens if token.logprobs is not None]
    assert sampled
    assert all(token.logprobs.logprob <= 0 for token in sampled if token.logprobs)


async def test_the_same_schema_again_and_again(tiny: Engine) -> None:
    params = SamplingParams(json_schema=SCHEMAS["person"], max_tokens=120, temperature=1.0, seed=9)
    texts = {(await tiny.generate("x", params)).text for _ in range(3)}
    assert len(texts) == 1
    assert json.loads(texts.pop())


async def test_a_document_that_was_cancelled_before_its_first_token_is_none(tiny: Engine) -> None:
    session = tiny.session()
    first = tiny.stream("x", max_tokens=1500, ignore_eos=True, session=session)
    waiting = tiny.stream("y", json_schema=True, max_tokens=100, session=session)
    waiting.abort()
    completion = await waiting.result()
    assert (completion.finish_reason, completion.text, completion.is_complete) == ("cancelled", "", False)
    await first.aclose()


@pytest.mark.model
async def test_a_cancelled_document_is_completed(engine: Engine) -> None:
    params = SamplingParams(json_schema=SCHEMAS["people"], max_tokens=1000, temperature=0.7, seed=2)
    async with engine.stream("People: ", params) as stream:
        async for _ in stream:
            stream.abort()
        completion = await stream.result()
    assert completion.finish_reason == "cancelled"
    check(SCHEMAS["people"], completion)


class City(pydantic.BaseModel):
    """What a schema class gives back."""

    city: str = pydantic.Field(max_length=12)
    population: int = pydantic.Field(ge=0, le=50_000_000)


async def test_generate_json_gives_the_parsed_value(tiny: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert (await tiny.generate_json("x", schema, max_tokens=30)).keys() == {"a"}
    assert await tiny.generate_json("x", '{"const": [1, "two"]}', max_tokens=30) == [1, "two"]
    city = await tiny.generate_json("x", City, max_tokens=60, temperature=1.0, seed=1)
    assert isinstance(city, City)
    with pytest.raises(InvalidParameterError, match="json_schema"):
        await tiny.generate_json("x", 5)  # type: ignore[arg-type]


async def test_a_regex_constrains_the_whole_text(tiny: Engine) -> None:
    params = SamplingParams(regex="[a-f]{3}-[0-9]{2}", max_tokens=40, temperature=1.0, seed=1)
    completion = await tiny.generate("x", params)
    assert completion.finish_reason == "stop"
    assert re.fullmatch("[a-f]{3}-[0-9]{2}", completion.text)


async def test_a_grammar_constrains_the_text(tiny: Engine) -> None:
    # Its longest texts have fewer bytes than there are tokens.
    grammar = 'start: "<" word ("," word)~0..3 ">"\nword: /[a-z]{1,5}/'
    completion = await tiny.generate("x", grammar=grammar, max_tokens=60, temperature=1.0, seed=4)
    assert completion.finish_reason == "stop"
    assert re.fullmatch("<[a-z]{1,5}(,[a-z]{1,5}){0,3}>", completion.text)


@pytest.mark.parametrize(("field", "value"), [("regex", "("), ("grammar", "start: missing")])
async def test_a_broken_grammar_is_refused(tiny: Engine, field: str, value: str) -> None:
    with pytest.raises(InvalidParameterError) as refused:
        await tiny.generate("x", SamplingParams(**{field: value}), max_tokens=10)  # type: ignore[arg-type]
    assert refused.value.field == field
