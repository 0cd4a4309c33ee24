"""What users of `litellm` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import json
import os
from typing import Any

import litellm
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

litellm.telemetry = False

MODEL = os.environ["MODEL"]
BASE: dict[str, Any] = {
    "model": f"openai/{MODEL}",
    "api_base": os.environ["BASE"],
    "api_key": os.environ["KEY"],
    "temperature": 0,
    "max_tokens": 8,
    "num_retries": 0,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "D", "parameters": SCHEMA}}


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def ask(text: str = "Say hello", **settings: Any) -> Any:
    return litellm.completion(**{**BASE, "messages": [{"role": "user", "content": text}], **settings})


def check_chat() -> None:
    answer = ask(max_completion_tokens=8)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def check_streams() -> None:
    whole = ask()
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    rebuilt = litellm.stream_chunk_builder(chunks)
    assert rebuilt is not None
    assert rebuilt.choices[0].message.content == whole.choices[0].message.content


async def check_async() -> None:
    messages = [{"role": "user", "content": "Say hello"}]
    whole = await litellm.acompletion(**BASE, messages=messages)
    stream = await litellm.acompletion(**BASE, messages=messages, stream=True)
    texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == whole.choices[0].message.content


def check_text_completion() -> None:
    prompt = "The capital of France is"
    settings = {**BASE, "model": f"text-completion-openai/{MODEL}", "max_tokens": 2}
    assert litellm.text_completion(**settings, prompt=prompt).choices[0].text == " Paris."
    chunks = litellm.text_completion(**settings, prompt=prompt, stream=True)
    assert "".join(chunk.choices[0].text or "" for chunk in chunks) == " Paris."


def check_tools() -> None:
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        asked = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 60}
        choice_made = ask("Weather in Paris?", **asked).choices[0]
        (call,) = choice_made.message.tool_calls
        assert call.function.name == "weather"
        assert set(json.loads(call.function.arguments)) == {"city", "days"}
        assert choice_made.finish_reason == "tool_calls"
        rebuilt = litellm.stream_chunk_builder(list(ask("Weather in Paris?", **asked, stream=True)))
        (streamed,) = rebuilt.choices[0].message.tool_calls
        assert json.loads(streamed.function.arguments) == json.loads(call.function.arguments)


def check_results_of_tools_go_back() -> None:
    asked = {"role": "user", "content": "Weather in Paris?"}
    called = ask(messages=[asked], tools=[TOOL], tool_choice="required", max_tokens=60).choices[0].message
    result = {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "12 degrees"}
    answer = ask(messages=[asked, called.model_dump(), result], tools=[TOOL], max_tokens=60).choices[0]
    # A small model may well ask again.
    assert answer.message.content or answer.message.tool_calls


def check_structured_output() -> None:
    answer = ask("Bob is 5", response_format=Person, max_tokens=60)
    Person.model_validate_json(answer.choices[0].message.content)
    answer = ask("Bob is 5", response_format={"type": "json_object"}, max_tokens=60)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def check_responses() -> None:
    settings = {**BASE, "max_output_tokens": 8}
    del settings["max_tokens"]
    whole = litellm.responses(**settings, input="Say hello")
    text = whole.output[0].content[0].text
    events = list(litellm.responses(**settings, input="Say hello", stream=True))
    assert text == "".join(getattr(event, "delta", "") for event in events)


def check_errors() -> None:
    error = raised(litellm.BadRequestError, lambda: ask(temperature=-1))
    assert "temperature" in str(error)
    raised(litellm.NotFoundError, lambda: ask(model="openai/none"))
    raised(litellm.AuthenticationError, lambda: ask(api_key="wrong"))
    raised(litellm.ContextWindowExceededError, lambda: ask("word " * 3000))
    raised(litellm.BadRequestError, lambda: list(ask(temperature=-1, stream=True)))


def check_the_server_is_a_litellm_provider() -> None:
    """LiteLLM's name for OpenAI-compatible servers that run on one's own machine."""
    answer = ask(model=f"hosted_vllm/{MODEL}", top_k=20, seed=7, stop=["\n"])
    assert answer.choices[0].message.content


if __name__ == "__main__":
    run_checks(globals())
