"""Conversions of the responses of the OpenAI dialect, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.apis.openai import responses_input
from llmserve.server.apis.openai.responses_items import OutputItems
from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Tag, Words
from llmserve.server.refusals import FieldError
from serving.openai_wire import responses


def test_input_items_are_messages() -> None:
    items = [
        {"role": "developer", "content": "D"},
        {"role": "user", "content": [{"type": "input_text", "text": "U"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "T"}], "summary": []},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": None},
        {"type": "function_call_output", "call_id": "1", "output": "R"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "S"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
    ]
    messages, names = responses_input.messages_of(responses(input=items, instructions="I"))
    assert [message["role"] for message in messages] == [
        "system",
        "developer",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert messages[3]["reasoning_content"] == "T"
    assert [call["function"]["name"] for call in messages[3]["tool_calls"]] == ["f", "g"]
    assert messages[4] == {"role": "tool", "tool_call_id": "1", "content": "R", "name": "f"}
    assert messages[5]["content"] == "S"
    assert messages[6]["content"] == [{"type": "text", "text": "A"}]
    assert [names[f"messages[{index}]"] for index in (0, 1, 3, 6)] == [
        "instructions",
        "input[0]",
        "input[3]",
        "input[7]",
    ]
    assert names["messages[3].tool_calls[1].function"] == "input[4]"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"prompt": {"id": "p"}}, "prompt is not supported, because templates are not stored"),
        ({"input": []}, "input must have at least one item"),
        ({"input": [{"type": "item_reference"}]}, "input[0].type must be message"),
        (
            {"input": [{"role": "tool", "content": "x"}]},
            "input[0].role must be user, assistant, system or developer",
        ),
        ({"input": [{"role": "user"}]}, "input[0].content must be a string or an array, got null"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id is required"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type must be text",
        ),
        ({"tools": [{}]}, "tools[0].name is required"),
        ({"tools": [{"type": "file_search"}]}, "tools[0].type must be function, got 'file_search'"),
    ],
)
def test_wrong_responses_are_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        responses_input.conversation_of(responses(**body))
    assert str(caught.value).startswith(message)


def test_reasoning_may_stand_in_the_text() -> None:
    pieces: list[Piece] = [Tag("<think>"), Reasoning("T"), Tag("</think>"), Words("A", ())]
    for shows_tags, texts in ((True, ["<think>T</think>A"]), (False, ["T", "A"])):
        items = OutputItems(shows_tags=shows_tags)
        for piece in pieces:
            list(items.add(piece))
        list(items.close("completed"))
        assert [item["content"][0]["text"] for item in items.items] == texts


def test_events_build_items() -> None:
    items = OutputItems()
    pieces: list[Piece] = [
        Reasoning("T"),
        Words("A", ()),
        Words("", ()),
        Words("B", ()),
        CallBegin(0, "id1", "f"),
    ]
    pieces += [CallArguments(0, "{"), CallArguments(0, "}"), CallBegin(1, "id2", "g")]
    events = [event for piece in pieces for event in items.add(piece)]
    events += items.close("incomplete")
    assert [item["type"] for item in items.items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert items.items[0]["content"] == [{"type": "reasoning_text", "text": "T"}]
    assert items.items[1]["content"][0]["text"] == "AB"
    assert (items.items[2]["call_id"], items.items[2]["arguments"]) == ("id1", "{}")
    assert [item["status"] for item in items.items] == ["completed"] * 3 + ["incomplete"]
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds == [
        *("output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done"),
        *("content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.done", "output_item.done"),
    ]
    assert [event["output_index"] for event in events] == [0] * 6 + [1] * 7 + [2] * 5 + [3] * 3
