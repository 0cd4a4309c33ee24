"""Turns whose every token is given: what is reasoning, what is the answer, and what a cut leaves."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from unittest import mock

import pytest

from llmserve.chat import ChatPrompt
from llmserve.errors import BudgetTooSmallError
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import CallBegin, Piece, Reasoning, Tag, Tool, Turn, TurnPlan, Words
from llmserve.server.conversation.call_price import CallPrice, affordable
from llmserve.server.conversation.reasoning import ReasoningTags
from llmserve.server.conversation.reasoning_limit import ReasoningLimit
from llmserve.server.conversation.tool_formats import PLAIN, ToolFormat
from llmserve.server.conversation.turn_plan import Reserve
from serving.scripted import PROMPT, scripted
from serving.tool_formats import HERMES

TAGS = ReasoningTags("<think>", "</think>")
TOOLS = (Tool(name="get_weather"), Tool(name="get_time"))


def run(*script: str, opens: bool = False, **fields: Any) -> tuple[list[Piece], Turn]:
    async def scenario() -> tuple[list[Piece], Turn]:
        params = SamplingParams(seed=1, **fields.pop("params", {}))
        prompt = ChatPrompt(text=PROMPT, marked=PROMPT)
        fields.setdefault("continued", "<think>" if opens else "")
        fields.setdefault("prices", {tool.name: CallPrice(0, 0) for tool in fields.get("tools", ())})
        plan = TurnPlan(prompt=prompt, params=params, **{"tags": TAGS, **fields})
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
        ("a</think>b<think>c</think>d", True, "a|b<think>c</think>d"),
        ("a<think>b</think>c", True, "ab|c"),
        ("a</think>b", False, "|a</think>b"),
        ("</think>a", False, "|a"),
        ("<think>a</think>b</think>c", False, "a|b</think>c"),
        ("<think>a</think>\n\n<think>b</think>c", False, "ab|c"),
        ("<think><think>a</think></think>b", False, "a|b"),
        ("a<think>b", False, "|a<think>b"),
        ("Write <think>x</think> or <think>", False, "|Write <think>x</think> or <think>"),
        ("<think>a\n</think>\n\nb <think>c</think> d", False, "a|b <think>c</think> d"),
        ("<think>a</think><answer>42</answer>", False, "a|<answer>42</answer>"),
        ("<think>a</think></x> y", False, "a|</x> y"),
        ("a</think>>é", True, "a|>é"),
        ("<think></think>x", False, "|x"),
    ],
)
def test_reasoning_comes_before_the_words_of_an_answer(
    raw: str, opens: bool, expected: str, size: int
) -> None:
    script = [raw[place : place + size] for place in range(0, len(raw), size)]
    pieces, turn = run(*script, opens=opens)
    if size < len("<think>"):
        # All of them, and the one that ends the generation.
        assert turn.end.usage.completion_tokens == len(script) + 1
    kinds = itertools.cycle(["Reasoning", "Words"])
    assert parts(pieces) == [
        (kind, text) for kind, text in zip(kinds, expected.split("|"), strict=False) if text
    ]


def test_a_tag_behind_the_words_that_are_continued_is_text() -> None:
    pieces, _ = run("<think>b</think>c", continued="<think>a</think> Yes: ")
    assert parts(pieces) == [("Words", "<think>b</think>c")]
    pieces, _ = run("b</think>c", continued="<think>a</think> <think>\n")
    assert parts(pieces) == [("Reasoning", "b"), ("Words", "c")]


def test_a_tag_behind_words_that_is_a_stop_string_ends_the_answer() -> None:
    pieces, turn = run("a<think>b", params={"stop": ["<think>"]})
    assert parts(pieces) == [("Words", "a")]
    assert (turn.end.finish_reason, turn.end.stop) == ("stop", "<think>")


def test_log_probabilities_have_the_tokens_of_a_tag_that_is_text() -> None:
    pieces, _ = run("a", "<think>", "b", params={"logprobs": 0})
    tokens = [token.text for piece in pieces if isinstance(piece, Words) for token in piece.tokens]
    assert tokens == ["a", "<think>", "b", ""]


@pytest.mark.parametrize(
    ("script", "opens", "expected"),
    [
        (("<think>\na\n", "</think>\n\nb"), False, "<think>a</think>b"),
        (("a", "</think>", "b"), True, "a</think>b"),
        (("<think>a</think>", "<think>b</think>", "c"), False, "<think>a</think><think>b</think>c"),
        (("<think>", "a"), False, "<think>a"),
        (("a<think>b",), False, "a<think>b"),
    ],
)
def test_tags_stand_between_the_texts_that_they_separate(
    script: tuple[str, ...], opens: bool, expected: str
) -> None:
    pieces, _ = run(*script, opens=opens)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Reasoning | Tag | Words)) == expected


def test_the_tag_that_closes_reasoning_before_a_document() -> None:
    pieces, _ = run("<think>a</think>", '{"b":1}', params={"json_schema": {}})
    texts = [(type(piece).__name__, piece.text) for piece in pieces if isinstance(piece, Reasoning | Tag)]
    assert texts == [("Tag", "<think>"), ("Reasoning", "a"), ("Tag", "</think>")]


LONG = Tool(name="get_the_weather_of_a_place")
PRICES = {LONG.name: CallPrice(name=30, arguments=3), TOOLS[1].name: CallPrice(name=9, arguments=3)}


def test_a_required_call_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BudgetTooSmallError) as refused:
        run("x", tools=(LONG, TOOLS[1]), mode="required", prices=PRICES, params={"max_tokens": 11})
    assert (refused.value.minimum, refused.value.budget) == (12, 11)
    assert str(refused.value) == "max_tokens: a tool call takes 12 tokens, but only 11 may be generated"


def test_a_required_call_names_a_tool_that_fits() -> None:
    assert affordable((LONG, TOOLS[1]), PRICES, 12) == ((TOOLS[1],), 9)
    assert affordable((LONG, TOOLS[1]), PRICES, 33) == ((LONG, TOOLS[1]), 30)
    assert affordable((LONG, TOOLS[1]), PRICES, None) == ((LONG, TOOLS[1]), None)


def test_the_longest_name_leaves_room_for_the_dearest_arguments() -> None:
    prices = {LONG.name: CallPrice(name=30, arguments=3), TOOLS[1].name: CallPrice(name=9, arguments=20)}
    assert affordable((LONG, TOOLS[1]), prices, 49) == ((TOOLS[1],), 29)
    assert affordable((LONG, TOOLS[1]), prices, 50) == ((LONG, TOOLS[1]), 30)


def test_the_name_of_a_required_call_that_is_cut_short_is_completed() -> None:
    prices = dict.fromkeys((LONG.name, TOOLS[1].name), CallPrice(name=5, arguments=3))
    script = (PLAIN.head, *LONG.name, PLAIN.after_name, *"{}}")
    pieces, turn = run(
        *script, tools=(LONG, TOOLS[1]), mode="required", prices=prices, params={"max_tokens": 8}
    )
    assert [piece.name for piece in pieces if isinstance(piece, CallBegin)] == [LONG.name]
    assert turn.end.usage.completion_tokens == 8


def test_stop_strings_look_only_at_what_is_shown() -> None:
    script = ("<think>", "a\n", "b", "</think>", "\n", "\n", "\nFirst", "\n", "second")
    pieces, turn = run(*script, params={"stop": ["\n"]})
    assert parts(pieces) == [("Reasoning", "a\nb"), ("Words", "First")]
    assert (turn.end.finish_reason, turn.end.stop) == ("stop", "\n")
    pieces, turn = run(*script, params={"stop": ["\nFirst"]})
    assert parts(pieces) == [("Reasoning", "a\nb"), ("Words", "First\nsecond")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
@pytest.mark.parametrize(
    ("answer", "stop"),
    [("Answer", "Answer"), ("Answer", "A"), ('"quoted".', '"q'), ('"quoted".', '"quo'), ('"quoted".', '"')],
)
def test_a_stop_string_at_the_beginning_of_the_answer_ends_it(answer: str, stop: str, size: int) -> None:
    raw = f"plan</think>{answer}"
    script = [raw[place : place + size] for place in range(0, len(raw), size)]
    pieces, turn = run(*script, opens=True, params={"stop": [stop]})
    assert parts(pieces) == [("Reasoning", "plan")]
    assert (turn.end.finish_reason, turn.end.stop) == ("stop", stop)


def test_a_stop_string_that_the_last_token_completes_is_not_shown() -> None:
    pieces, turn = run("plan", "</think", '>x"', "y", opens=True, params={"stop": ['"'], "max_tokens": 3})
    assert parts(pieces) == [("Reasoning", "plan"), ("Words", "x")]
    assert (turn.end.finish_reason, turn.end.stop, turn.end.usage.completion_tokens) == ("stop", '"', 3)


@pytest.mark.parametrize(
    "begin", [("</think><", "tool_call>"), ("</think", "><tool", "_call>"), ("</think><tool_call>",)]
)
def test_a_call_may_begin_in_the_token_of_a_tag(begin: tuple[str, ...]) -> None:
    rest = HERMES.head.removeprefix("<tool_call>") + "get_weather" + HERMES.after_name
    pieces, turn = run(
        "a", *begin, rest, "{}", opens=True, tools=TOOLS[:1], format=HERMES, mode="auto", is_parallel=False
    )
    assert parts(pieces) == [("Reasoning", "a")]
    assert [piece.name for piece in pieces if isinstance(piece, CallBegin)] == ["get_weather"]
    assert (turn.end.finish_reason, turn.end.num_calls) == ("stop", 1)


def test_the_blanks_around_reasoning_can_be_kept() -> None:
    raw = "<think>\nplan\n</think>\n\nAnswer."
    pieces, _ = run(*raw, keeps_blanks=True)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Reasoning | Tag | Words)) == raw


def test_the_tag_that_ends_reasoning_comes_before_a_call() -> None:
    script = ("a", "</think>", f"\n\n{HERMES.head}get_weather{HERMES.after_name}", "{}")
    pieces, _ = run(*script, opens=True, tools=TOOLS[:1], format=HERMES, mode="required")
    shown = [piece for piece in pieces if isinstance(piece, Tag | CallBegin)]
    assert shown == [Tag("</think>"), CallBegin(0, mock.ANY, "get_weather")]


def test_what_reasoning_leaves_to_others() -> None:
    reserve = Reserve(drawn=5, inserted=3)
    assert [reserve.room(budget, 100) for budget in (4, 5, 8, None)] == [0, 0, 3, 92]
    assert [reserve.room(50, context) for context in (7, 8, 10, 100)] == [0, 0, 2, 45]


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


def test_a_tool_that_was_chosen_is_shown_without_its_arguments() -> None:
    name = "get_weather"
    script = ("<tool_call>", HERMES.head.removeprefix("<tool_call>"), *f'{name}"', "{}")
    num_tokens = 1 + len(name) + 1
    pieces, turn = run(*script, tools=TOOLS, format=HERMES, mode="auto", params={"max_tokens": num_tokens})
    assert [piece for piece in pieces if not isinstance(piece, Words)] == [CallBegin(0, mock.ANY, name)]
    assert (turn.end.finish_reason, turn.end.num_calls) == ("length", 1)
    assert turn.end.usage.completion_tokens == num_tokens


def limited(max_tokens: int, message: str | None = None) -> dict[str, Any]:
    return {"reasoning_limit": ReasoningLimit(max_tokens, message)}


def test_reasoning_is_closed_at_its_limit_and_the_answer_comes() -> None:
    # The script goes on behind what the turn has inserted.
    closing = "</think>\n\n"
    pieces, turn = run("ab", "cd", closing, "e", "f", opens=True, **limited(2))
    assert parts(pieces) == [("Reasoning", "abcd"), ("Words", "ef")]
    assert [piece.text for piece in pieces if isinstance(piece, Tag)] == ["</think>"]
    end = turn.end
    assert (end.finish_reason, end.reasoning_tokens, end.usage.completion_tokens) == ("stop", 2, 5)


def test_reasoning_that_ends_before_its_limit_is_as_it_would_be_without() -> None:
    script = ("a", "</think>", "b")
    free, _ = run(*script, opens=True)
    pieces, turn = run(*script, opens=True, **limited(2))
    assert pieces == free
    assert turn.end.reasoning_tokens == 2


def test_the_token_limit_ends_a_turn_whose_reasoning_has_reached_its_own_limit_too() -> None:
    pieces, turn = run("a", "b", "c", opens=True, params={"max_tokens": 2}, **limited(2))
    assert (parts(pieces), turn.end.finish_reason) == ([("Reasoning", "ab")], "length")


def test_the_limit_holds_for_all_blocks_of_reasoning_together() -> None:
    pieces, turn = run("<think>", "a", "</think>", "<think>", "</think>\n\n", "b", **limited(2))
    assert parts(pieces) == [("Reasoning", "a"), ("Words", "b")]
    assert turn.end.reasoning_tokens == 2


def test_the_last_words_of_reasoning_are_inserted_once_and_told() -> None:
    inserted = "Enough.</think>\n\n"
    pieces, turn = run("a", inserted, "b", opens=True, **limited(1, "Enough."))
    assert parts(pieces) == [("Reasoning", "aEnough."), ("Words", "b")]
    assert turn.end.reasoning_tokens == 1


def test_no_reasoning_at_all_before_a_document() -> None:
    pieces, turn = run("</think>\n\n", '{"b":1}', opens=True, params={"json_schema": {}}, **limited(0))
    assert parts(pieces) == [("Words", '{"b":1}')]
    assert turn.end.reasoning_tokens == 0
