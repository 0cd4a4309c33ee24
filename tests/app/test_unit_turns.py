"""Turns whose every token is given: what is reasoning, what is the answer, and what a cut leaves."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from llmserve.chat import ChatPrompt
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import CallBegin, Piece, Reasoning, Tool, Turn, TurnPlan, Words
from llmserve.server.conversation.reasoning import ReasoningTags
from llmserve.server.conversation.tool_formats import HERMES, PLAIN, ToolFormat
from serving.scripted import PROMPT, scripted

TAGS = ReasoningTags("<think>", "</think>")
TOOLS = (Tool(name="get_weather"), Tool(name="get_time"))


def run(*script: str, opens: bool = False, **fields: Any) -> tuple[list[Piece], Turn]:
    async def scenario() -> tuple[list[Piece], Turn]:
        params = SamplingParams(seed=1, **fields.pop("params", {}))
        prompt = ChatPrompt(text=PROMPT, marked=PROMPT)
        continued = "<think>" if opens else ""
        plan = TurnPlan(prompt=prompt, params=params, **{"tags": TAGS, "continued": continued, **fields})
        turn = Turn(scripted(*script), plan)
        await turn.begin()
        return [piece async for piece in turn.pieces()], turn

    return asyncio.run(scenario())


def parts(pieces: list[Piece]) -> list[tuple[str, str]]:
    """The kinds and texts of the output, those of one kind in a row joined."""
    shown = [
        (type(piece).__name__, piece.text)
        for piece in pieces
        if isinstance(piece, Reasoning | Words) and piece.text
    ]
    return [
        (kind, "".join(text for _, text in group))
        for kind, group in itertools.groupby(shown, key=lambda part: part[0])
    ]


@pytest.mark.parametrize("rest", ['"quoted".', "`code`", ">", "é", "<b>"])
def test_what_the_token_of_a_closing_tag_holds_beyond_it_belongs_to_the_answer(rest: str) -> None:
    pieces, turn = run("plan", "</think", f">{rest[0]}", rest[1:] + "!", opens=True)
    assert parts(pieces) == [("Reasoning", "plan"), ("Words", rest + "!")]
    assert (turn.end.finish_reason, turn.end.reasoning_tokens) == ("stop", 3)


def test_what_that_token_holds_is_shown_at_the_end_of_the_budget_too() -> None:
    pieces, turn = run("plan", "</think", '>"', "quoted", opens=True, params={"max_tokens": 3})
    assert parts(pieces) == [("Reasoning", "plan"), ("Words", '"')]
    assert turn.end.finish_reason == "length"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("raw", "opens", "expected"),
    [
        ("a</think>b<think>c</think>d", True, "a|b|c|d"),
        ("a<think>b</think>c", True, "ab|c"),
        ("a</think>b", False, "|ab"),
        ("<think>a</think>b</think>c", False, "a|bc"),
        ("<think><think>a</think></think>b", False, "a|b"),
        ("a<think>b", False, "|a|b"),
        ("<think>a\n</think>\n\nb <think>c</think> d", False, "a|b |c| d"),
    ],
)
def test_tags_of_reasoning_switch_wherever_they_stand(
    raw: str, opens: bool, expected: str, size: int
) -> None:
    script = [raw[place : place + size] for place in range(0, len(raw), size)]
    pieces, _ = run(*script, opens=opens)
    kinds = itertools.cycle(["Reasoning", "Words"])
    assert parts(pieces) == [
        (kind, text) for kind, text in zip(kinds, expected.split("|"), strict=False) if text
    ]


def test_stop_strings_look_only_at_what_is_shown() -> None:
    script = ("<think>", "a\n", "b", "</think>", "\n", "\n", "\nFirst", "\n", "second")
    pieces, turn = run(*script, params={"stop": ["\n"]})
    assert parts(pieces) == [("Reasoning", "a\nb"), ("Words", "First")]
    assert (turn.end.finish_reason, turn.end.stop) == ("stop", "\n")
    pieces, turn = run(*script, params={"stop": ["\nFirst"]})
    assert parts(pieces) == [("Reasoning", "a\nb"), ("Words", "First\nsecond")]


def test_a_stop_string_that_begins_in_the_token_of_a_tag_ends_the_answer() -> None:
    pieces, turn = run("a", "</think>x#", "#y", opens=True, params={"stop": ["##"]})
    assert parts(pieces) == [("Reasoning", "a"), ("Words", "x")]
    assert (turn.end.finish_reason, turn.end.stop) == ("stop", "##")


@pytest.mark.parametrize(
    ("tool_format", "script", "shown"),
    [
        (HERMES, ("Well: ", "<tool_call>", "\n"), "Well:<tool_call>"),
        (PLAIN, ("{", '"name'), "{"),
    ],
)
def test_the_beginning_of_a_call_that_does_not_fit_is_shown(
    tool_format: ToolFormat, script: tuple[str, ...], shown: str
) -> None:
    num_tokens = 2 if tool_format is HERMES else 1
    fields: dict[str, Any] = {"format": tool_format, "mode": "auto", "params": {"max_tokens": num_tokens}}
    pieces, turn = run(*script, tools=TOOLS, **fields)
    assert parts(pieces) == [("Words", shown)]
    assert (turn.end.finish_reason, turn.end.num_calls) == ("length", 0)
    assert (turn.end.usage.prompt_tokens, turn.end.usage.completion_tokens) == (1, num_tokens)
    # The name of an only tool is known.
    pieces, turn = run(*script, tools=TOOLS[:1], **fields)
    assert [piece.name for piece in pieces if isinstance(piece, CallBegin)] == ["get_weather"]
    assert (turn.end.finish_reason, turn.end.num_calls) == ("length", 1)
    assert turn.end.usage.completion_tokens == num_tokens
