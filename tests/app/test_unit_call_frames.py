"""Calls in the frames that are read off templates: what a template shows is read back as the same calls."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmserve import InvalidParameterError, TemplateError
from llmserve.chat import ChatPrompt
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import CallArguments, CallBegin, Reasoning, Tool, Turn, TurnPlan, Words
from llmserve.server.conversation.argument_rules import arguments_of
from llmserve.server.conversation.argument_values import fitted
from llmserve.server.conversation.call_frames import derived_format
from llmserve.server.conversation.call_price import CallPrice
from llmserve.server.conversation.known_formats import KIMI, LFM, format_of
from llmserve.server.conversation.reasoning import tags_of
from llmserve.server.conversation.tagged_call import PricedArgument
from llmserve.server.conversation.tool_formats import PLAIN, ToolFormat
from llmserve.templates.capabilities import call_message, capabilities, rendered
from llmserve.templates.messages import adapted
from serving.call_templates import CALL_TEMPLATES
from serving.scripted import PROMPT, scripted

JINJA = Path(__file__).parent.parent / "data" / "templates" / "jinja"
CORPUS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(JINJA.iterdir())}
TEMPLATES = {**CORPUS, **CALL_TEMPLATES}

# Templates that show no calls; what their models write is known, or nothing is.
SHOW_NO_CALLS = {
    "chatml",
    "granite-3.0",
    "granite-3.3",
    "mistral-v1",
    "openchat",
    "own-bos-turns",
    "own-call-queue",
    "own-colon",
    "own-human",
    "own-inst-alternating",
    "own-inst-sys",
    "own-inst-system",
    "own-instruction",
    "own-open-turns",
    "own-text-building",
    "own-token-turns",
    "own-turns",
    "own-turns-bos",
    "own-user-assistant",
    "phi-3-medium",
    "phi-3-mini",
    "phi-3.5",
    "phi-4",
    "rwkv-world",
    "smollm2",
    "smollm3",
}
SHOWN = sorted(set(TEMPLATES) - SHOW_NO_CALLS)
# Some show one call a turn, and one ends the list of calls after the second.
SHOW_FEW_CALLS = {"own-header-date": 1, "own-header-tools": 1, "gpt-oss": 1, "deepseek-r1-llama": 2}
# These show objects in words of their own; the server has them written as JSON.
SHOW_ODD_OBJECTS = {"gemma-4", "seed-oss"}

QUESTION = "Where are the bandicoots?"
PROPERTIES = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "is_long": {"type": "boolean"},
    "unit": {"enum": ["celsius", "fahrenheit"]},
    "filter": {"type": "object"},
}
TOOLS = tuple(
    Tool(name=name, parameters={"type": "object", "properties": PROPERTIES})
    for name in ("weather", "weather_at")
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("weather_at", {"city": 'Åre, "north" it\'s', "days": 12, "unit": "celsius"}),
    ("weather", {"filter": {"a": [1, {"b": "x y"}]}, "is_long": True}),
    ("weather", {}),
]


def shown(name: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """What the template makes of an assistant's calls, from the first of them on."""
    takes, format_ = capabilities(TEMPLATES[name]), format_of(TEMPLATES[name])
    ids = [
        f"a1B2c3D4{index}" if format_.id_style == "short" else f"call_a1B2c3D4{index}" for index in range(3)
    ]
    given = [
        {
            "id": id_,
            "type": "function",
            "function": {
                "name": called,
                "arguments": arguments if takes.takes_objects else json.dumps(arguments, ensure_ascii=False),
            },
        }
        for id_, (called, arguments) in zip(ids, calls, strict=False)
    ]
    messages = [{"role": "user", "content": QUESTION}, call_message(given, takes.empty_content)]
    messages += [
        {"role": "tool", "tool_call_id": call["id"], "name": called, "content": "r"}
        for call, (called, _) in zip(given, calls, strict=True)
    ]
    text = rendered(TEMPLATES[name], messages, [tool.template_form for tool in TOOLS])
    assert text is not None
    text = text[text.rindex(QUESTION) :]
    begin = format_.head.replace("{id}", ids[0]).replace("{index}", str(format_.first_index))
    return text[text.index(begin + calls[0][0]) :]


def read(
    format_: ToolFormat, script: str, size: int, **fields: Any
) -> tuple[list[tuple[str, Any]], str, str, list[str]]:
    """The calls, words and reasoning that a turn makes of a script in pieces of about a size, and the ids."""
    chance = random.Random(size)  # noqa: S311 - sizes of pieces
    pieces = []
    while script:
        length = chance.randint(1, size)
        pieces.append(script[:length])
        script = script[length:]
    plan = TurnPlan(
        prompt=ChatPrompt(text=PROMPT, marked=PROMPT),
        params=SamplingParams(seed=1),
        tools=TOOLS,
        mode=fields.pop("mode", "auto"),
        format=format_,
        arguments=priced(format_),
        prices={tool.name: CallPrice(0, 0) for tool in TOOLS},
        **fields,
    )

    async def scenario() -> tuple[list[tuple[str, Any]], str, str, list[str]]:
        turn = Turn(scripted(*pieces, is_strict=True), plan)
        await turn.begin()
        calls: list[list[str]] = []
        words = thoughts = ""
        ids = []
        async for piece in turn.pieces():
            if isinstance(piece, CallBegin):
                calls.append([piece.name, ""])
                ids.append(piece.id)
            elif isinstance(piece, CallArguments):
                calls[piece.index][1] += piece.text
            elif isinstance(piece, Words):
                words += piece.text
            elif isinstance(piece, Reasoning):
                thoughts += piece.text
        assert turn.end.finish_reason == "stop"
        return [(name, json.loads(arguments)) for name, arguments in calls], words, thoughts, ids

    return asyncio.run(scenario())


def priced(format_: ToolFormat) -> dict[str, tuple[PricedArgument, ...]]:
    tags = format_.tags
    if tags is None:
        return {}
    return {
        tool.name: tuple(
            PricedArgument(fitted(argument, tags), 0, 0, 0) for argument in arguments_of(tool.schema) or ()
        )
        for tool in TOOLS
    }


def calls_of(name: str) -> list[tuple[str, dict[str, Any]]]:
    calls = CALLS[: SHOW_FEW_CALLS.get(name)]
    if name in SHOW_ODD_OBJECTS:
        calls = [(tool, {key: arg for key, arg in args.items() if key != "filter"}) for tool, args in calls]
    return calls


def test_which_templates_show_calls() -> None:
    assert {name for name, source in TEMPLATES.items() if derived_format(source) is None} == SHOW_NO_CALLS


@pytest.mark.parametrize("name", SHOWN)
def test_calls_that_a_template_shows_are_read_back(name: str) -> None:
    format_, calls = format_of(TEMPLATES[name]), calls_of(name)
    script = shown(name, calls)
    for size in (1, 6, 1000):
        assert read(format_, script, size)[0] == calls, size
        # What comes before the name is inserted in place of what the model would write.
        assert read(format_, script, size, mode="required")[0] == calls, size
        if not format_.begins_with_brace:
            found, words, _, _ = read(format_, "Well, " + script, size)
            assert (found, words) == (calls, "Well,")


@pytest.mark.parametrize("name", [name for name in SHOWN if tags_of(TEMPLATES[name])])
def test_reasoning_may_come_before_calls(name: str) -> None:
    tags, format_, calls = tags_of(TEMPLATES[name]), format_of(TEMPLATES[name]), calls_of(name)
    assert tags is not None
    between = tags.after_close if tags.hidden else "\n"
    script = f"{tags.open}{tags.lead}Hm.\n{tags.close}{between}{shown(name, calls)}"
    for size in (2, 50):
        found, words, thoughts, _ = read(format_, script, size, tags=tags)
        assert (found, words, thoughts) == (calls, "", "Hm."), size


@pytest.mark.parametrize("size", [1, 4, 30])
def test_channels(size: int) -> None:
    source = TEMPLATES["gpt-oss"]
    tags, format_ = tags_of(source), format_of(source)
    turn = (
        "<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|> So.<|end|><|start|>assistant"
    )
    call = '<|channel|>commentary json<|message|>{"days": 1}<|call|>'
    found, words, thoughts, _ = read(format_, f"{turn} to=functions.weather{call}", size, tags=tags)
    # The end of a message is a control token, which shows only in this test.
    assert (found, words.removesuffix("<|end|>"), thoughts) == (
        [("weather", {"days": 1})],
        "I look.",
        "Hm. So.",
    )
    answer = f"{turn}<|channel|>final<|message|>Wet."
    assert read(format_, answer, size, tags=tags)[1].replace("<|end|>", "|") == "I look.|Wet."


def test_ids_are_as_templates_show_them() -> None:
    format_ = format_of(TEMPLATES["functions"])
    calls = [("weather", {"days": 1}), ("weather_at", {})]
    *_, ids = read(format_, shown("functions", calls), 7)
    assert ids == ["functions.weather:0", "functions.weather_at:1"]
    *_, (first,) = read(format_of(TEMPLATES["ids first"]), shown("ids first", calls[:1]), 7)
    assert len(first) == 14


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ '<|tool_call_argument_begin|>' }}", KIMI),
        ("{{ '<|tool_list_start|>' }}", LFM),
        ("{{ messages[0].content }}", PLAIN),
    ],
)
def test_what_is_known_of_templates_that_show_no_calls(text: str, expected: ToolFormat) -> None:
    assert format_of(text) == expected


def test_the_known_formats_are_read_back() -> None:
    call = [("weather", {"days": 2, "city": 'a "b"'})]
    kimi = "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
    assert read(KIMI, f"{kimi}{json.dumps(call[0][1])}<|tool_call_end|>", 5)[0] == call
    lfm = '<|tool_call_start|>[weather(days=2, city="a \\"b\\""), weather()]<|tool_call_end|>'
    assert read(LFM, lfm, 5)[0] == [*call, ("weather", {})]


BROKEN: list[Any] = [
    "",
    "null",
    " ",
    "{",
    '{"city": "Åre',
    "[1]",
    "5",
    '"a"',
    "not json",
    "[" * 2000,
    None,
    7,
    ["a"],
    {},
]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_history_with_broken_arguments_is_shown_or_refused(name: str) -> None:
    takes = capabilities(TEMPLATES[name])
    for arguments in BROKEN:
        call = {
            "id": "a1B2c3D4e",
            "type": "function",
            "function": {"name": "weather", "arguments": arguments},
        }
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
        try:
            given = adapted(messages, takes)
        except (InvalidParameterError, TemplateError):
            continue
        # `None`: the template has refused it.
        text = rendered(TEMPLATES[name], given)
        assert text is None or isinstance(text, str)
