"""Calls in the formats of today's models, whole at the end of every budget."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from llmserve import BudgetTooSmallError, Engine, ModelConfig, SamplingParams
from llmserve.server.conversation import CallArguments, CallBegin, Tool, Turn, TurnPlan
from llmserve.server.conversation.call_price import price_calls
from llmserve.server.conversation.checking import check_tools, price_arguments
from llmserve.server.conversation.tool_formats import ToolFormat
from serving.tool_formats import (
    DEEPSEEK,
    GEMMA,
    GLM_XML,
    HERMES,
    MINIMAX_XML,
    MISTRAL_IDS,
    PYTHON,
    QWEN_XML,
    SEED_XML,
)

TAGGED = {
    "qwen": QWEN_XML,
    "glm": GLM_XML,
    "seed": SEED_XML,
    "minimax": MINIMAX_XML,
    "gemma": GEMMA,
    "python": PYTHON,
}
PLACE = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "height": {"type": "number"}},
    "required": ["name", "height"],
}
WEATHER = Tool(
    name="weather",
    parameters={
        "type": "object",
        "$defs": {"Unit": {"enum": ["celsius", "fahrenheit"]}, "Place": PLACE},
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 99},
            "unit": {"$ref": "#/$defs/Unit"},
            "is_long": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "minItems": 1, "maxItems": 2},
            "code": {"type": "string", "pattern": "^[a-z]{3}$"},
        },
        "required": ["city", "days", "unit", "places", "code"],
    },
)
NOTHING = Tool(name="nothing")
# Its arguments are one JSON object in every format.
EITHER = Tool(
    name="either",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"type": "integer", "maximum": 9}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
)


@dataclass
class Called:
    """What a turn has called, and how it ended."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    finish_reason: str = ""
    num_tokens: int = 0


async def call(
    engine: Engine,
    tool_format: ToolFormat,
    tools: Sequence[Tool],
    *,
    is_parallel: bool = False,
    **params: Any,
) -> Called:
    lengths = await check_tools(engine, tools)
    tags = tool_format.tags
    between_tags = await price_arguments(engine, tools, tags) if tags is not None else {}
    plan = TurnPlan(
        prompt=await engine.chat_prompt([{"role": "user", "content": "How is the weather in Paris?"}]),
        params=SamplingParams(**{"seed": 1, "temperature": 1.0, **params}),
        tools=tuple(tools),
        mode="required",
        is_parallel=is_parallel,
        format=tool_format,
        arguments=between_tags,
        prices=await price_calls(engine, tools, tool_format, documents=lengths, between_tags=between_tags),
    )
    turn, called = Turn(engine, plan), Called()
    await turn.begin()
    await turn.accepted()
    async for piece in turn.pieces():
        if isinstance(piece, CallBegin):
            called.calls.append((piece.name, ""))
            called.ids.append(piece.id)
        elif isinstance(piece, CallArguments):
            name, arguments = called.calls[piece.index]
            called.calls[piece.index] = (name, arguments + piece.text)
    called.finish_reason, called.num_tokens = turn.end.finish_reason, turn.end.usage.completion_tokens
    return called


def check(called: Called, tools: Sequence[Tool]) -> None:
    schemas = {tool.name: tool.schema for tool in tools}
    for name, arguments in called.calls:
        jsonschema.validate(json.loads(arguments), schemas[name])


@pytest.mark.parametrize("tool_format", TAGGED.values(), ids=TAGGED)
def test_arguments_are_whole_at_every_budget(tiny: Engine, tool_format: ToolFormat) -> None:
    """From the smallest that is taken."""

    async def scenario() -> None:
        with pytest.raises(BudgetTooSmallError) as caught:
            await call(tiny, tool_format, [WEATHER], max_tokens=2)
        least = caught.value.minimum
        with pytest.raises(BudgetTooSmallError):
            await call(tiny, tool_format, [WEATHER], max_tokens=least - 1)
        reasons = set()
        for seed, max_tokens in enumerate([*range(least, least + 20, 4), 600]):
            called = await call(tiny, tool_format, [WEATHER], max_tokens=max_tokens, seed=seed)
            assert len(called.calls) == 1
            check(called, [WEATHER])
            assert called.num_tokens <= max_tokens
            reasons.add(called.finish_reason)
        assert "length" in reasons

    asyncio.run(scenario())


@pytest.mark.parametrize("tool_format", TAGGED.values(), ids=TAGGED)
def test_the_context_is_a_budget_too(tiny_model: Path, tool_format: ToolFormat) -> None:
    async def scenario() -> None:
        config = ModelConfig(context_length=520, max_sequences=2, threads=1)
        async with await Engine.load(tiny_model, config) as small:
            for seed in range(2):
                called = await call(small, tool_format, [WEATHER], seed=seed, temperature=1.5)
                check(called, [WEATHER])
                assert len(called.calls) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("tool_format", TAGGED.values(), ids=TAGGED)
def test_tools_of_other_kinds(tiny: Engine, tool_format: ToolFormat) -> None:
    async def scenario() -> None:
        called = await call(tiny, tool_format, [NOTHING], max_tokens=40)
        assert (called.calls, called.finish_reason) == ([("nothing", "{}")], "stop")
        called = await call(tiny, tool_format, [EITHER], max_tokens=60)
        assert called.calls[0][0] == "either"
        check(called, [EITHER])
        tools = [WEATHER, NOTHING, EITHER]
        for seed in range(4):
            called = await call(tiny, tool_format, tools, max_tokens=200, seed=seed, is_parallel=True)
            check(called, tools)
            assert called.calls

    asyncio.run(scenario())


@pytest.mark.model
@pytest.mark.parametrize(
    "tool_format", [MISTRAL_IDS, DEEPSEEK, HERMES, QWEN_XML], ids=["mistral", "deepseek", "hermes", "qwen"]
)
def test_a_real_model_calls(engine: Engine, tool_format: ToolFormat) -> None:
    tools = [WEATHER, NOTHING]
    called = asyncio.run(call(engine, tool_format, tools, max_tokens=200))
    check(called, tools)
    assert len(called.calls) == 1
    assert len(called.ids[0]) == (9 if tool_format.id_style == "short" else 14)
