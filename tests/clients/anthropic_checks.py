"""What users of `anthropic` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

import anthropic
from anthropic import Anthropic, AsyncAnthropic, beta_tool
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

MODEL = os.environ["MODEL"]
BASE: dict[str, Any] = {
    "base_url": os.environ["BASE"].removesuffix("/v1"),
    "api_key": os.environ["KEY"],
    "max_retries": 0,
}
CLIENT = Anthropic(**BASE)
GREEDY = {"temperature": 0}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 40,
    "messages": [{"role": "user", "content": "Weather in Paris?"}],
    "extra_body": GREEDY,
}

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20, "description": "The city's name."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
CACHED = {"type": "ephemeral"}
WEATHER = {"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}
TIME = {**WEATHER, "name": "time", "description": "The time in a city.", "cache_control": CACHED}
ONE = {"type": "any", "disable_parallel_tool_use": True}


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=20)
    unit: Literal["celsius", "fahrenheit"]


def check_a_message() -> None:
    message = CLIENT.messages.create(**ASKED)
    assert message.role == "assistant"
    assert [block.type for block in message.content] == ["text"]
    assert (message.model, message.stop_reason) == (MODEL, "max_tokens")
    assert message.usage.output_tokens == 40
    assert message._request_id


def check_a_stream() -> None:
    whole = CLIENT.messages.create(**ASKED)
    with CLIENT.messages.stream(**ASKED) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == stream.get_final_text() == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    kinds = [event.type for event in CLIENT.messages.create(**ASKED, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


async def check_the_async_client() -> None:
    client = AsyncAnthropic(**BASE)
    message = await client.messages.create(**ASKED)
    async with client.messages.stream(**ASKED) as stream:
        final = await stream.get_final_message()
    assert final.content[0].text == message.content[0].text
    assert (await client.messages.count_tokens(model=MODEL, messages=ASKED["messages"])).input_tokens > 5


def check_counts_and_the_cache() -> None:
    asked = {**ASKED, "system": [{"type": "text", "text": "Be brief. " * 20, "cache_control": CACHED}]}
    counted = {name: asked[name] for name in ("model", "messages", "system")}
    count = CLIENT.messages.count_tokens(**counted, tools=[WEATHER]).input_tokens
    CLIENT.messages.create(**asked, tools=[WEATHER])
    usage = CLIENT.messages.create(**asked, tools=[WEATHER]).usage
    assert usage.cache_read_input_tokens is not None
    assert usage.cache_read_input_tokens > 50
    assert usage.input_tokens + usage.cache_read_input_tokens == count


def check_tool_choice() -> None:
    for choice in ({"type": "tool", "name": "time", "disable_parallel_tool_use": True}, ONE):
        message = CLIENT.messages.create(**ASKED, tools=[WEATHER, TIME], tool_choice=choice)
        (call,) = message.content
        assert (call.type, message.stop_reason) == ("tool_use", "tool_use")
        assert call.name == choice.get("name", call.name)
        assert call.input["unit"] in ("celsius", "fahrenheit")
    for kind in ("none", "auto"):
        message = CLIENT.messages.create(**ASKED, tools=[WEATHER], tool_choice={"type": kind})
        assert [block.type for block in message.content] == ["text"]


def check_a_streamed_call() -> None:
    with CLIENT.messages.stream(**ASKED, tools=[WEATHER], tool_choice=ONE) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        (call,) = stream.get_final_message().content
    assert json.loads("".join(parts)) == call.input
    assert set(call.input) == {"city", "unit"}


def check_five_turns_with_tools() -> None:
    """As coding agents do: `?beta=true`, cached system blocks, what was answered goes back as it came."""
    messages: list[Any] = list(ASKED["messages"])
    system: list[dict[str, Any]] = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=1;"},
        {"type": "text", "text": "You are an agent.", "cache_control": CACHED},
    ]
    read = []
    for turn in range(5):
        system[0]["text"] = f"x-anthropic-billing-header: cc_version=1; cch={turn};"
        with CLIENT.beta.messages.stream(
            **{**ASKED, "messages": messages},
            system=system,
            tools=[WEATHER, TIME],
            tool_choice=ONE,
            betas=["context-management-2025-06-27"],
            context_management={"edits": []},
            metadata={"user_id": "u"},
        ) as stream:
            message = stream.get_final_message()
        assert message.stop_reason == "tool_use"
        read.append(message.usage.cache_read_input_tokens)
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"{turn} degrees", "is_error": False}
            for block in message.content
            if block.type == "tool_use"
        ]
        results[-1]["cache_control"] = CACHED
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    # The system message and the tools, and more, are computed once.
    assert min(read[1:]) > 200
    messages[-1]["content"] += [{"type": "text", "text": "Sum up."}]
    last = CLIENT.messages.create(
        **{**ASKED, "messages": messages}, system=system, tools=[WEATHER, TIME], tool_choice={"type": "none"}
    )
    assert last.content[0].text


def check_the_tool_runner() -> None:
    called = []

    @beta_tool
    def weather(city: Literal["Paris", "Rome"]) -> str:
        """Finds the weather of a city."""
        called.append(city)
        if len(called) == 2:
            raise ValueError("no such city")
        return "sunny"

    runner = CLIENT.beta.messages.tool_runner(**ASKED, tools=[weather], tool_choice=ONE, max_iterations=5)
    reasons = [message.stop_reason for message in runner]
    assert reasons == ["tool_use"] * 5
    assert len(called) >= 4


def check_structured_output() -> None:
    message = CLIENT.messages.parse(**ASKED, output_format=Weather)
    assert isinstance(message.parsed_output, Weather)
    wanted = {"type": "json_schema", "schema": SCHEMA}
    made = CLIENT.messages.create(**ASKED, output_config={"format": wanted})
    assert set(json.loads(made.content[0].text)) == {"city", "unit"}


def check_stop_sequences_and_the_assistants_words() -> None:
    messages = [{"role": "user", "content": "Count"}, {"role": "assistant", "content": "One, two,"}]
    message = CLIENT.messages.create(**{**ASKED, "messages": messages}, stop_sequences=["four"])
    assert "three" in message.content[0].text
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "four")


def check_thinking() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    message = CLIENT.messages.create(**{**ASKED, "max_tokens": 2000}, thinking=thinking, stop_sequences=["."])
    # The model does not reason.
    assert [block.type for block in message.content] == ["text"]


def check_models() -> None:
    (model,) = CLIENT.models.list()
    assert (model.id, model.display_name, model.type) == (MODEL, MODEL, "model")
    assert model.max_input_tokens == 2048
    assert CLIENT.models.retrieve(MODEL) == model


def check_errors() -> None:
    def ask(**body: Any) -> Any:
        return lambda: CLIENT.messages.create(**{**ASKED, **body})

    error = raised(anthropic.NotFoundError, ask(model="none"))
    assert error.type == "not_found_error"
    error = raised(anthropic.BadRequestError, ask(messages=[{"role": "user", "content": "word " * 3000}]))
    assert (error.type, "prompt is too long" in error.message) == ("invalid_request_error", True)
    image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}
    error = raised(anthropic.BadRequestError, ask(messages=[{"role": "user", "content": [image]}]))
    assert "messages[0].content[0]" in error.message
    error = raised(anthropic.BadRequestError, ask(tools=[{"type": "web_search_20250305", "name": "w"}]))
    assert error.api_message.startswith("tools[0].type must be custom")
    wrong = Anthropic(**{**BASE, "api_key": "wrong"})
    error = raised(anthropic.AuthenticationError, lambda: wrong.messages.create(**ASKED))
    assert (error.type, bool(error.request_id)) == ("authentication_error", True)
    token = Anthropic(base_url=BASE["base_url"], auth_token=BASE["api_key"])
    assert token.messages.create(**ASKED).content


if __name__ == "__main__":
    run_checks(globals())
