"""Turns of an assistant on a real engine, where HTTP cannot reach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from llmserve import BudgetTooSmallError, Engine, InvalidParameterError, QueueFullError, SamplingParams
from llmserve.server.conversation import (
    CallArguments,
    CallBegin,
    Piece,
    Reasoning,
    Tool,
    Turn,
    TurnPlan,
    Words,
)
from llmserve.server.conversation.call_price import CallPrice, price_calls
from llmserve.server.conversation.checking import check_tools
from llmserve.server.conversation.reasoning import ReasoningTags
from llmserve.server.conversation.segments import find_cues
from llmserve.server.conversation.tool_formats import ToolFormat

pytestmark = pytest.mark.model

# A control token of the model, whose text never shows.
CONTROL = "<repo_name>"
TOOLS = tuple(
    Tool(name=name, parameters={"type": "object", "properties": {"a": {"enum": ["b"]}}, "required": ["a"]})
    for name in ("run", "run_all")
)
FORMAT = ToolFormat(
    triggers=(CONTROL,),
    head=f'{CONTROL}{{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
)


async def plan(engine: Engine, **fields: Any) -> TurnPlan:
    params = {"seed": 1, "max_tokens": 60, **fields.pop("params", {})}
    prompt = await engine.chat_prompt([{"role": "user", "content": "Say hello"}])
    prices = await price(engine) if fields.get("mode") == "required" else {}
    return TurnPlan(prompt=prompt, params=SamplingParams(**params), prices=prices, **fields)


async def price(engine: Engine) -> Mapping[str, CallPrice]:
    lengths = await check_tools(engine, TOOLS)
    return await price_calls(engine, TOOLS, FORMAT, documents=lengths, between_tags={})


def run(engine: Engine, **fields: Any) -> tuple[list[Piece], Turn]:
    async def scenario() -> tuple[list[Piece], Turn]:
        turn = Turn(engine, await plan(engine, **fields))
        await turn.begin()
        return [piece async for piece in turn.pieces()], turn

    return asyncio.run(scenario())


def control_id(engine: Engine) -> int:
    (cue,) = asyncio.run(find_cues(engine, [CONTROL]))
    assert cue.token is not None
    return cue.token


def test_a_control_token_is_a_trigger(engine: Engine) -> None:
    params = {"logit_bias": {control_id(engine): 100}}
    pieces, turn = run(engine, tools=TOOLS, mode="auto", format=FORMAT, params=params)
    (begin,) = [piece for piece in pieces if isinstance(piece, CallBegin)]
    assert begin.name in ("run", "run_all")
    arguments = "".join(piece.text for piece in pieces if isinstance(piece, CallArguments))
    assert json.loads(arguments) == {"a": "b"}
    assert "".join(piece.text for piece in pieces if isinstance(piece, Words)) == ""
    assert (turn.end.finish_reason, turn.end.num_calls) == ("stop", 1)


def test_a_control_token_begins_the_reasoning(engine: Engine) -> None:
    params = {"logit_bias": {control_id(engine): 100}, "json_schema": {"type": "object", "properties": {}}}
    # Nothing but control tokens is drawn, so what is thought has no text and no end.
    tags = ReasoningTags(CONTROL, "<file_sep>")
    pieces, turn = run(engine, tags=tags, params={**params, "max_tokens": 4})
    assert [piece for piece in pieces if isinstance(piece, Reasoning)] == []
    assert (turn.end.finish_reason, turn.end.reasoning_tokens) == ("length", 3)


def test_a_turn_that_is_aborted_says_so(engine: Engine) -> None:
    async def scenario() -> tuple[list[Piece], Turn]:
        turn = Turn(engine, await plan(engine, params={"ignore_eos": True, "max_tokens": None}))
        await turn.begin()
        pieces = []
        async for piece in turn.pieces():
            pieces.append(piece)
            turn.abort()
        return pieces, turn

    pieces, turn = asyncio.run(scenario())
    assert pieces
    assert turn.end.finish_reason == "cancelled"
    assert turn.end.usage.completion_tokens < 1000


def test_a_turn_that_waits_for_a_place_in_the_queue_is_aborted_too(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_asked = 0

    async def scenario() -> Turn:
        turn = Turn(engine, await plan(engine, tools=TOOLS, mode="required", format=FORMAT))
        await turn.begin()

        async def accepted() -> int:
            nonlocal num_asked
            num_asked += 1
            assert num_asked == 1, "it was asked again after the abort"
            asyncio.get_running_loop().call_soon(turn.abort)
            raise QueueFullError("full", retry_after_s=1000)

        stream = SimpleNamespace(accepted=accepted, abort=lambda: None)
        monkeypatch.setattr(turn, "_start", lambda request: SimpleNamespace(stream=stream))
        async for _ in turn.pieces():
            pass
        return turn

    turn = asyncio.run(scenario())
    assert (turn.end.finish_reason, num_asked) == ("cancelled", 1)


@pytest.mark.parametrize("max_tokens", range(3, 30, 4))
def test_required_calls_are_whole_at_every_limit_that_is_taken(engine: Engine, max_tokens: int) -> None:
    fields = {"tools": TOOLS, "mode": "required", "format": FORMAT, "params": {"max_tokens": max_tokens}}
    least = min(of_tool.whole for of_tool in asyncio.run(price(engine)).values())
    assert 3 < least < 27
    if max_tokens < least:
        with pytest.raises(BudgetTooSmallError):
            run(engine, **fields)
        return
    pieces, turn = run(engine, **fields)
    (begun,) = [piece for piece in pieces if isinstance(piece, CallBegin)]
    assert begun.name in ("run", "run_all")
    arguments = "".join(piece.text for piece in pieces if isinstance(piece, CallArguments))
    assert json.loads(arguments) == {"a": "b"}
    assert turn.end.usage.completion_tokens <= max_tokens


def test_schemas_are_checked(engine: Engine) -> None:
    asyncio.run(check_tools(engine, TOOLS))
    bad = Tool(name="bad", parameters={"type": "object", "properties": {"a": {"pattern": "("}}})
    for _ in range(2):
        with pytest.raises(InvalidParameterError, match="/properties/a: unclosed group") as caught:
            asyncio.run(check_tools(engine, (*TOOLS, bad)))
        assert caught.value.field == "tools"
