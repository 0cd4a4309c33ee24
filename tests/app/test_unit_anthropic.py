"""Conversions of Anthropic's dialect, without an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.apis.anthropic.blocks import SIGNATURE, ContentBlocks, Event
from llmserve.server.apis.anthropic.convert import conversation_of, ignored_fields, params_of
from llmserve.server.apis.anthropic.history import History, history_of
from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Tag, Words
from llmserve.server.error_shapes.anthropic import DIALECT, render
from llmserve.server.web.errors import fault_headers, fault_of
from llmserve.server.web.fields import wire_name
from llmserve.server.web.schema import read

USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"name": name, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}} for name in ("f", "g")
]


def request(**body: Any) -> MessagesRequest:
    return read(MessagesRequest, {"model": "m", "messages": [USER], **body}).value


def history(*messages: Any, **body: Any) -> History:
    return history_of(request(messages=list(messages), **body))


def text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def test_blocks_are_messages() -> None:
    thinking = {"type": "thinking", "thinking": "T", "signature": "s"}
    calls = [
        {"type": "tool_use", "id": "1", "name": "f", "input": {"city": "Rome"}},
        {"type": "tool_use", "id": "2", "name": "g", "input": {}, "cache_control": {"type": "ephemeral"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": [text("R1"), text("R2")]},
        {"type": "tool_result", "tool_use_id": "2", "content": "no such city", "is_error": True},
        {"type": "tool_result", "tool_use_id": "3"},
    ]
    made = history(
        {"role": "user", "content": [text("U1", cache_control={"type": "ephemeral"}), text("U2")]},
        {"role": "assistant", "content": [thinking, {"type": "redacted_thinking", "data": "x"}, text("A")]},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [*results, text("U3")]},
        {"role": "user", "content": "U4"},
        system=[text("S1", cache_control={"type": "ephemeral"}), text("S2")],
    )
    called = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"city": "Rome"}}},
        {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}},
    ]
    assert made.messages == [
        {"role": "system", "content": "S1\nS2"},
        {"role": "user", "content": "U1\nU2"},
        {"role": "assistant", "content": "A", "reasoning_content": "T", "tool_calls": called},
        {"role": "tool", "tool_call_id": "1", "name": "f", "content": "R1\nR2"},
        {"role": "tool", "tool_call_id": "2", "name": "g", "content": "Error: no such city"},
        {"role": "tool", "tool_call_id": "3", "content": ""},
        {"role": "user", "content": "U3\nU4"},
    ]
    assert made.names["messages[0]"] == "system"
    assert made.names["messages[2].tool_calls[1].function"] == "messages[2].content[1]"
    assert made.names["messages[4]"] == "messages[3].content[1]"
    assert not made.continues


@pytest.mark.parametrize(
    "system",
    [
        "x-anthropic-billing-header: cch=1;\nBe brief.",
        [text("x-anthropic-billing-header: cch=1;"), text("Be brief.")],
    ],
)
def test_what_agents_say_about_themselves_is_not_read(system: Any) -> None:
    assert history(USER, system=system).messages[0] == {"role": "system", "content": "Be brief."}
    quoted = "Say x-anthropic-billing-header: a"
    assert history(USER, system=quoted).messages[0]["content"] == quoted


def test_an_answer_continues_the_assistant() -> None:
    made = history(USER, {"role": "assistant", "content": [text("One, "), text("two")]})
    assert made.continues
    assert made.messages[-1]["content"] == "One, two"
    conversation = conversation_of(request(messages=[USER, {"role": "assistant", "content": "One"}]))
    assert conversation.variables["continue_final_message"]
    assert not conversation.variables["add_generation_prompt"]
    empties: tuple[Any, ...] = ("", [], [text("")])
    for empty in empties:
        assert history(USER, {"role": "assistant", "content": empty}).messages == [USER]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"messages": [{"role": "user", "content": [text("a"), {"type": "image", "source": {}}]}]},
            "messages[0].content[1].type must be text or tool_result, got 'image': llmserve reads text only",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            "messages[0].content[0].type must be text or tool_result, got 'document'",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}
                        ],
                    }
                ]
            },
            "messages[0].content[0].content[0].type must be text, got 'image'",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]}]},
            "messages[0].content[0].name is required",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f"}]}]},
            "messages[0] must not end with a tool_use",
        ),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role must be user, assistant or sy"),
        ({"messages": [{"role": "user"}]}, "messages[0].content is required"),
        ({"messages": [{"role": "user", "content": [text(7)]}]}, "messages[0].content[0].text must be a str"),  # type: ignore[arg-type]
        ({"system": [{"type": "image"}]}, "system[0].type must be text, got 'image'"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema is required"),
        ({"tools": [{**TOOLS[0], "name": "a b"}]}, "tools[0].name must be"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools[1] has the name of another tool, f"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "w"}]},
            "tools[0].type must be custom, got 'we",
        ),
        ({"tools": TOOLS, "tool_choice": {"type": "tool"}}, "tool_choice.name is required"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "h"}}, "tool_choice.name must be the name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice is any, but there are no tools"),
        ({"tool_choice": {"type": "required"}}, "tool_choice.type must be 'auto' or 'any'"),
        ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens must be at least 1"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"output_format": {"type": "text"}}, "output_format.type must be json_schema, got 'text'"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema is required"),
        (
            {
                "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
                "output_format": {"type": "json_schema", "schema": SCHEMA},
            },
            "output_format cannot be used with output_config.format",
        ),
        ({"thread": {"type": "create"}}, "thread is not supported, because threads are not stored"),
        ({"container": "c"}, "container is not supported: llmserve runs no code"),
        ({"mcp_servers": [{}]}, "mcp_servers is not supported: llmserve calls no other servers"),
        ({"stop": ["a"]}, "stop is not supported: use stop_sequences"),
        ({"response_format": {"type": "json_object"}}, "response_format must be"),
    ],
)
def test_what_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(refusals.FieldError) as refusal:
        made = request(**body)
        conversation_of(made)
        params_of(made)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("choice", "mode", "names", "is_parallel"),
    [
        (None, "auto", ["f", "g"], True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", ["f", "g"], False),
        ({"type": "any"}, "required", ["f", "g"], True),
        ({"type": "tool", "name": "g", "disable_parallel_tool_use": True}, "required", ["g"], False),
        ({"type": "none"}, "none", ["f", "g"], True),
    ],
)
def test_tools_and_their_choice(choice: Any, mode: str, names: list[str], is_parallel: bool) -> None:
    made = conversation_of(request(tools=TOOLS, tool_choice=choice))
    assert (made.mode, made.is_parallel) == (mode, is_parallel)
    assert [tool.name for tool in made.callable_tools] == names
    assert made.tools[1].parameters_field == "tools[1].input_schema"
    assert conversation_of(request(tool_choice={"type": "none"})).mode == "none"


@pytest.mark.parametrize(
    ("thinking", "thinks", "limit"),
    [
        (None, False, 0),
        ({"type": "disabled"}, False, 0),
        ({"type": "enabled", "budget_tokens": 2048}, True, 2048),
        ({"type": "adaptive"}, True, None),
    ],
)
def test_reasoning_is_asked_for(thinking: Any, thinks: bool, limit: int | None) -> None:
    made = conversation_of(request(thinking=thinking, output_config={"effort": "low"}))
    variables = made.variables
    assert made.reasoning_limit.max_tokens == limit
    assert (variables["enable_thinking"], variables["thinking"]) == (thinks, thinks)
    assert variables["reasoning_effort"] == "low"


def test_parameters() -> None:
    made = request(
        max_tokens=7,
        stop_sequences=["a"],
        top_k=3,
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    )
    params = params_of(made)
    assert (params.max_tokens, params.stop, params.top_k, params.temperature) == (7, ("a",), 3, 1.0)
    assert params.json_schema is not None
    assert orjson.loads(str(params.json_schema)) == SCHEMA
    assert wire_name(made, "json_schema") == "output_config.format.schema"
    assert ignored_fields(params) == ["stop_sequences"]
    parsed = read(
        MessagesRequest,
        {
            "model": "m",
            "messages": [USER],
            "metadata": {"user_id": "u"},
            "cache_control": {"type": "ephemeral"},
            "context_management": {"edits": []},
        },
    )
    assert set(parsed.unknown) == {"metadata", "context_management"}
    assert ignored_fields(params_of(parsed.value)) == []


def events_of(content: ContentBlocks, pieces: Iterable[Piece]) -> list[Event]:
    made = [event for piece in pieces for event in content.add(piece)]
    return [*made, *content.close()]


PIECES: tuple[Piece, ...] = (
    Tag("<think>"),
    Reasoning("Hm"),
    Reasoning("m"),
    Tag("</think>"),
    Words("", ()),
    Words("So", ()),
    Words(": ", ()),
    CallBegin(0, "c0", "f"),
    CallArguments(0, '{"n":'),
    CallArguments(0, "123456789012345678901234567890}"),
    CallBegin(1, "c1", "g"),
)
CALLS = [
    {"type": "tool_use", "id": "c0", "name": "f", "input": {"n": 123456789012345678901234567890}},
    {"type": "tool_use", "id": "c1", "name": "g", "input": {}},
]


def test_blocks_of_a_turn() -> None:
    content = ContentBlocks()
    events = events_of(content, PIECES)
    assert [(event["type"].removeprefix("content_block_"), event["index"]) for event in events] == [
        *[("start", 0), ("delta", 0), ("delta", 0), ("delta", 0), ("stop", 0)],
        *[("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)],
        *[("start", 2), ("delta", 2), ("delta", 2), ("stop", 2)],
        *[("start", 3), ("stop", 3)],
    ]
    assert events[0]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [event["delta"] for event in events if "delta" in event] == [
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": SIGNATURE},
        {"type": "text_delta", "text": "So"},
        {"type": "text_delta", "text": ": "},
        {"type": "input_json_delta", "partial_json": '{"n":'},
        {"type": "input_json_delta", "partial_json": "123456789012345678901234567890}"},
    ]
    assert events[9]["content_block"] == {**CALLS[0], "input": {}}
    written = orjson.dumps(content.blocks)
    assert b'{"n":123456789012345678901234567890}' in written
    thinking, words, *calls = orjson.loads(written)
    assert thinking == {"type": "thinking", "thinking": "Hmm", "signature": SIGNATURE}
    assert words == {"type": "text", "text": "So: "}
    assert [call["id"] for call in calls] == ["c0", "c1"]


def test_reasoning_that_is_not_shown() -> None:
    content = ContentBlocks(omits_thinking=True)
    events = events_of(content, [Reasoning("Hm"), Words("So", ())])
    assert [event["delta"]["type"] for event in events if "delta" in event] == [
        "signature_delta",
        "text_delta",
    ]
    assert content.blocks[0] == {"type": "thinking", "thinking": "", "signature": SIGNATURE}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (refusals.FieldError("a.b", "is required"), 400, "invalid_request_error"),
        (refusals.UnauthorizedError(was_given=True), 401, "authentication_error"),
        (refusals.ForeignHostError(), 403, "permission_error"),
        (refusals.UnknownModelError("m"), 404, "not_found_error"),
        (refusals.CallCancelledError(), 409, "conflict_error"),
        (refusals.FieldTooLongError("a", 1), 413, "request_too_large"),
        (RuntimeError("secret"), 500, "api_error"),
        (refusals.NotSupportedError("x"), 501, "api_error"),
        (errors.LoadError("x"), 502, "api_error"),
        (refusals.ModelLoadingError(), 503, "overloaded_error"),
        (errors.QueueFullError("full"), 529, "overloaded_error"),
    ],
)
def test_the_shape_of_errors(error: Exception, status: int, kind: str) -> None:
    fault = fault_of(error, DIALECT)
    assert fault.status == status
    detail = {"type": kind, "message": fault.message}
    assert render(fault) == {"type": "error", "error": detail, "request_id": "-"}
    assert "secret" not in fault.message
    assert (b"retry-after" in dict(fault_headers(fault))) == (status in (503, 529))


def test_errors_that_clients_recover_from() -> None:
    long = errors.ContextExceededError("x", prompt_tokens=9, context_length=8)
    shown: Any = render(fault_of(long, DIALECT))
    assert shown["error"]["message"] == "prompt is too long: 9 tokens > 7 maximum"
    thread: Any = render(fault_of(refusals.ThreadsNotStoredError("thread"), DIALECT))
    assert thread["error"]["details"]["error_code"] == "thread_unsupported_request"
