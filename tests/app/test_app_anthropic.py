"""Anthropic's Messages API, on a generated model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server, events, post, serve_in_process
from synthetic import main_file

KEY = "a-key"
CONTEXT_LENGTH = 1024
MODEL = Path(main_file("llama")).stem
# Shows what it is told about reasoning.
TEMPLATE = """\
{% if enable_thinking %}think first {% endif %}{{ tools or '' }}
{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.tool_calls or '' }}
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""
CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
TOOLS = [{"name": name, "description": "About a city.", "input_schema": CITY} for name in ("weather", "time")]


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("anthropic")
    template = folder / "template.jinja"
    template.write_text(TEMPLATE)
    env = {
        "LLMSERVE_API_KEY": KEY,
        "LLMSERVE_CHAT_TEMPLATE_FILE": str(template),
        "LLMSERVE_CONTEXT_LENGTH": str(CONTEXT_LENGTH),
    }
    with serve_in_process(folder, tiny_model, env=env) as running:
        yield running


def ask(server: Server, path: str = "/v1/messages", *, key: str = KEY, **body: Any) -> Answer:
    whole = {
        "model": MODEL,
        "max_tokens": 12,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Say hello"}],
        **body,
    }
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01", "anthropic-beta": "a-beta"}
    return post(server.port, path, whole, headers=headers)


def made(server: Server, **body: Any) -> Any:
    """The message of a whole answer, which a stream must give as well."""
    answer = ask(server, **body)
    assert answer.status == 200, answer.text
    streamed = ask(server, **body, stream=True)
    message, whole = joined(streamed.text), answer.json
    assert shown(message) == shown(whole)
    assert total(message["usage"]) == total(whole["usage"])
    return whole


def shown(message: Any) -> Any:
    """What is the same in two answers."""
    blocks = [{**block, "id": ""} for block in message["content"]]
    return blocks, message["stop_reason"], message["stop_sequence"], message["usage"]["output_tokens"]


def total(usage: Any) -> int:
    return int(
        usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    )


def joined(body: str) -> Any:
    """The message of a stream, put together as clients do."""
    lines = events(body)
    names = [line.removeprefix("event: ") for line in lines[::2]]
    found = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert names == [event["type"] for event in found]
    assert (names[0], names[-2], names[-1]) == ("message_start", "message_delta", "message_stop")
    message: Any = found[0]["message"]
    for event in found[1:-1]:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            ((field, more),) = [item for item in event["delta"].items() if item[0] != "type"]
            block = message["content"][event["index"]]
            block[field] = block.get(field, "") + more
        elif event["type"] == "content_block_stop":
            block = message["content"][event["index"]]
            if "partial_json" in block:
                block["input"] = json.loads(block.pop("partial_json"))
        else:
            message = {**message, **event["delta"], "usage": event["usage"]}
    return message


def test_a_message(server: Server) -> None:
    message = made(server, system=[{"type": "text", "text": "Be brief.", "cache_control": {}}])
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert message["id"].startswith("msg_")
    (block,) = message["content"]
    assert block["type"] == "text"
    assert block["text"]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("max_tokens", 12)
    assert ask(server, "/v1/messages?beta=true").status == 200


def test_a_full_context_is_told(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "hello " * 150}], "max_tokens": 5000}
    message = made(server, **body)
    assert message["stop_reason"] == "model_context_window_exceeded"
    assert total(message["usage"]) + message["usage"]["output_tokens"] == CONTEXT_LENGTH


def test_tokens_are_counted_as_they_are_used(server: Server) -> None:
    body: dict[str, Any] = {
        "tools": TOOLS,
        "messages": [{"role": "user", "content": "Say hello " * 20}],
    }
    first, second = ask(server, **body).json["usage"], ask(server, **body).json["usage"]
    count = ask(server, "/v1/messages/count_tokens", **body)
    assert count.json == {"input_tokens": total(first)}
    assert total(second) == total(first)
    assert second["cache_read_input_tokens"] > second["input_tokens"] > 0


def test_reasoning_is_off_unless_it_is_asked_for(server: Server) -> None:
    def count(**body: Any) -> int:
        return int(ask(server, "/v1/messages/count_tokens", **body).json["input_tokens"])

    plain = count()
    assert count(thinking={"type": "disabled"}) == plain
    assert count(thinking={"type": "enabled", "budget_tokens": 1024}) > plain
    answer = ask(server, thinking={"type": "enabled", "budget_tokens": 1024}, metadata={"user_id": "u"})
    assert answer.header("x-llmserve-ignored") == "metadata"


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "any", "disable_parallel_tool_use": True},
        {"type": "tool", "name": "time", "disable_parallel_tool_use": True},
    ],
)
def test_a_call_that_must_come(server: Server, choice: dict[str, Any]) -> None:
    message = made(server, tools=TOOLS, tool_choice=choice, max_tokens=60)
    (call,) = message["content"]
    assert (call["type"], message["stop_reason"]) == ("tool_use", "tool_use")
    assert call["name"] in (choice.get("name"), "weather", "time")
    assert call["input"]["city"] in ("Rome", "Oslo")
    assert choice["type"] == "any" or call["name"] == "time"


def test_results_go_back(server: Server) -> None:
    messages = [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "b", "name": "time", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "b", "content": "none", "is_error": True},
                {"type": "text", "text": "Well?"},
            ],
        },
    ]
    assert made(server, messages=messages, tools=TOOLS, tool_choice={"type": "none"})["content"]


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_a_document(server: Server, place: str) -> None:
    wanted = {"type": "json_schema", "schema": CITY}
    body = {"output_format": wanted} if place == "output_format" else {place: {"format": wanted}}
    message = made(server, **body, max_tokens=40)
    assert json.loads(message["content"][0]["text"])["city"] in ("Rome", "Oslo")
    assert message["stop_reason"] == "end_turn"
    schema = {"type": "json_schema", "schema": {"type": "nonsense"}}
    body = {"output_format": schema} if place == "output_format" else {place: {"format": schema}}
    refused = ask(server, **body)
    assert refused.status == 400
    field = place if place == "output_format" else f"{place}.format"
    assert refused.json["error"]["message"].startswith(f"{field}.schema")


def test_a_stop_sequence_is_told(server: Server) -> None:
    text = made(server)["content"][0]["text"]
    stop = text[len(text) // 2 :][:3]
    message = made(server, stop_sequences=[stop, "never"])
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", stop)
    shown = "".join(block["text"] for block in message["content"])
    assert shown == text[: text.index(stop)]


def test_the_assistants_words_are_continued(server: Server) -> None:
    messages = [{"role": "user", "content": "Say hello"}, {"role": "assistant", "content": "Well"}]
    count = ask(server, "/v1/messages/count_tokens", messages=messages[:1]).json["input_tokens"]
    message = made(server, messages=messages)
    assert count < total(message["usage"]) < count + 6
    assert message["content"]


def test_errors(server: Server) -> None:
    for answer, status, kind in (
        (
            ask(server, messages=[{"role": "user", "content": [{"type": "image"}]}]),
            400,
            "invalid_request_error",
        ),
        (ask(server, messages=[{"role": "user", "content": "a " * 5000}]), 400, "invalid_request_error"),
        (ask(server, key="wrong"), 401, "authentication_error"),
        (ask(server, model="claude-opus-4-1"), 404, "not_found_error"),
        (ask(server, "/v1/messages/nothing"), 404, "not_found_error"),
        (ask(server, "/v1/messages/batches", requests=[]), 501, "api_error"),
    ):
        assert answer.status == status, answer.text
        assert answer.json["type"] == "error"
        assert answer.json["error"]["type"] == kind
        assert answer.json["error"]["message"]
        assert answer.json["request_id"] == answer.header("request-id")


def test_tools_that_cannot_be_enforced_are_named(server: Server) -> None:
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}}
    answer = ask(server, tools=[*TOOLS, tool])
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("tools[2].input_schema")
