"""Chat and responses of a real server process, with the `openai` client as it comes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import openai
import pytest
from pydantic import BaseModel

from serving import ServerProcess, post
from serving.openai_requests import MODEL, chat, chunks, function, user

pytestmark = pytest.mark.model


class Person(BaseModel):
    name: str
    age: int


class Names(BaseModel):
    names: list[str]


def test_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=user("Say hello"), temperature=0, max_completion_tokens=8
    )
    message = answer.choices[0].message
    assert message.role == "assistant"
    assert message.content
    assert answer.choices[0].finish_reason == "length"
    with client.chat.completions.stream(
        model=MODEL, messages=user("Say hello"), temperature=0, max_completion_tokens=8
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    assert "".join(deltas) == message.content


def test_parts_are_joined(server: ServerProcess) -> None:
    parts = [{"type": "text", "text": "Say "}, {"type": "text", "text": "hello"}]
    split = chat(server, messages=[{"role": "user", "content": parts}]).json
    assert split["choices"] == chat(server).json["choices"]
    developer = [{"role": "developer", "content": "Be brief."}, *user("Say hello")]
    system = [{"role": "system", "content": "Be brief."}, *user("Say hello")]
    assert chat(server, messages=developer).json["choices"] == chat(server, messages=system).json["choices"]


def test_text_of_users_makes_no_turns(server: ServerProcess) -> None:
    def num_prompt_tokens(text: str) -> int:
        return int(chat(server, messages=user(text)).json["usage"]["prompt_tokens"])

    # As control tokens they would be one token each.
    assert num_prompt_tokens("<|im_end|><|im_start|>") > num_prompt_tokens("a b") + 4


def test_async_clients(server: ServerProcess) -> None:
    async def scenario() -> tuple[list[str | None], str]:
        url = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=300) as client:
            create = client.chat.completions.create
            many = [
                create(model=MODEL, messages=user("Say hello"), temperature=0, max_tokens=8) for _ in range(8)
            ]
            texts = [answer.choices[0].message.content for answer in await asyncio.gather(*many)]
            stream = await create(
                model=MODEL, messages=user("Say hello"), temperature=0, max_tokens=8, stream=True
            )
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
            return texts, "".join(pieces)

    texts, streamed = asyncio.run(scenario())
    assert set(texts) == {streamed}


def test_structured_output(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model=MODEL, messages=user("Bob is 5. Extract."), temperature=0, response_format=Person
    )
    assert isinstance(answer.choices[0].message.parsed, Person)
    with client.chat.completions.stream(
        model=MODEL, messages=user("Bob is 5. Extract."), temperature=0, response_format=Person
    ) as stream:
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert parsed == answer.choices[0].message.parsed
    response = client.responses.parse(
        model=MODEL, input="Bob is 5. Extract.", temperature=0, text_format=Person
    )
    assert isinstance(response.output_parsed, Person)


def test_a_document_cut_short_is_whole_and_says_so(client: openai.OpenAI, server: ServerProcess) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 2}
    wanted = {"type": "json_schema", "json_schema": {"name": "list", "schema": schema, "strict": True}}
    body = {"messages": user("List 100 names."), "response_format": wanted, "max_tokens": 16}
    choice = chat(server, **body).json["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(json.loads(choice["message"]["content"])) >= 2
    parts = [part["choices"][0] for part in chunks(chat(server, **body, stream=True).text)]
    assert "".join(p["delta"].get("content") or "" for p in parts) == choice["message"]["content"]
    assert parts[-1]["finish_reason"] == "length"
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model=MODEL,
            messages=user("List 100 names."),
            max_tokens=16,
            response_format=Names,
            temperature=0,
        )


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}])
def test_calls_match_their_tools(client: openai.OpenAI, choice: Any, is_stream: bool) -> None:
    tools: Any = [function("time", "city"), function("time_zone", "city", "country")]
    arguments: Any = {
        "model": MODEL,
        "messages": user("What time is it in Paris?"),
        "tools": tools,
        "tool_choice": choice,
        "temperature": 0,
    }
    if is_stream:
        with client.chat.completions.stream(**arguments) as stream:
            answer: Any = stream.get_final_completion()
    else:
        answer = client.chat.completions.create(**arguments)
    assert answer.choices[0].finish_reason == "tool_calls"
    (call,) = answer.choices[0].message.tool_calls
    keys = {tool["function"]["name"]: tool["function"]["parameters"]["required"] for tool in tools}
    assert list(json.loads(call.function.arguments)) == keys[call.function.name]
    if isinstance(choice, dict):
        assert call.function.name == "time"
    assert call.id


def test_calls_cut_short_parse(server: ServerProcess) -> None:
    body = {"tools": [function("time", "city")], "tool_choice": "required", "max_tokens": 8, "temperature": 1}
    for seed in range(5):
        choice = chat(server, **body, seed=seed).json["choices"][0]
        arguments = choice["message"]["tool_calls"][0]["function"]["arguments"]
        assert list(json.loads(arguments)) == ["city"]


def test_a_conversation_with_tools_goes_on(server: ServerProcess) -> None:
    tools = [function("time", "city")]
    messages = user("What time is it in Paris?")
    first = chat(server, messages=messages, tools=tools, tool_choice="required", max_tokens=40)
    message = first.json["choices"][0]["message"]
    assert message["content"] is None
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Noon."}
    second = chat(server, messages=[*messages, message, result], tools=tools)
    assert second.status == 200
    assert second.json["usage"]["prompt_tokens"] > first.json["usage"]["prompt_tokens"]


def test_a_bad_schema_of_a_tool_is_refused_before_the_turn(server: ServerProcess) -> None:
    bad = function("time", "city")
    bad["function"]["parameters"]["properties"]["city"] = {"type": "string", "pattern": "(?<=a)b"}
    for choice in ("auto", "required"):
        for is_stream in (False, True):
            answer = chat(server, tools=[function("date"), bad], tool_choice=choice, stream=is_stream)
            assert answer.status == 400
            assert answer.json["error"]["param"] == "tools[1].function.parameters"


def test_a_response(client: openai.OpenAI) -> None:
    whole = client.responses.create(model=MODEL, input="Say hello", temperature=0, max_output_tokens=8)
    assert (whole.status, whole.incomplete_details and whole.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )
    assert whole.usage is not None
    assert whole.usage.output_tokens == 8
    with client.responses.stream(
        model=MODEL, input="Say hello", temperature=0, max_output_tokens=8
    ) as stream:
        seen = list(stream)
    assert cast(Any, seen[-1]).response.output_text == whole.output_text
    numbers = [event.sequence_number for event in seen if hasattr(event, "sequence_number")]
    assert numbers == sorted(numbers)
    kinds = [event.type for event in seen]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-1] == "response.incomplete"


def test_a_response_with_calls(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", **function("time", "city")["function"]}
    first = client.responses.create(
        model=MODEL, input="What time is it in Paris?", tools=[tool], tool_choice="required", temperature=0
    )
    (call,) = first.output
    assert call.type == "function_call"
    assert list(json.loads(call.arguments)) == ["city"]
    items: Any = [
        {"role": "user", "content": "What time is it in Paris?"},
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "Noon."},
    ]
    second = client.responses.create(
        model=MODEL, input=items, tools=[tool], tool_choice="none", temperature=0, max_output_tokens=8
    )
    assert second.output_text


@pytest.mark.parametrize("content", ["", " ", "\n"])
def test_empty_messages_are_answered(server: ServerProcess, content: str) -> None:
    assert chat(server, messages=user(content)).status == 200


def test_messages_replace_a_session(server: ServerProcess) -> None:
    def step(messages: list[Any], **body: Any) -> Any:
        whole = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 6, **body}
        return post(server.port, "/v1/chat/completions", whole, headers={"X-LLMServe-Session": "turns"}).json

    first = step(user("Say hello"))
    assert step(user("Say hello"))["choices"] == first["choices"]
    said = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
    second = step([*user("Say hello"), said, *user("Again")])
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"]
    tools = [function("time", "city"), function("place", "city")]
    called = step(user("What time is it?"), tools=tools, tool_choice="required", max_tokens=40)
    assert called["choices"][0]["message"]["tool_calls"]
