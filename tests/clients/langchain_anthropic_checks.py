"""What users of `langchain-anthropic` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from typing import Any, Literal

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

BASE: dict[str, Any] = {
    "base_url": os.environ["BASE"].removesuffix("/v1"),
    "api_key": os.environ["KEY"],
    "model": os.environ["MODEL"],
    "max_retries": 0,
    "max_tokens": 60,
}


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=20)
    unit: Literal["celsius", "fahrenheit"]


@tool
def weather(city: Literal["Paris", "Rome"], unit: Literal["celsius", "fahrenheit"]) -> str:
    """Finds the weather of a city."""
    return f"12 degrees {unit} in {city}"


def chat(**settings: Any) -> ChatAnthropic:
    return ChatAnthropic(**{**BASE, **settings})


def check_chat() -> None:
    answer = chat(max_tokens=8).invoke([SystemMessage("Be brief."), HumanMessage("Say hello")])
    assert answer.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] <= 8
    assert answer.usage_metadata["input_tokens"] > 8


async def check_streams() -> None:
    joined = AIMessageChunk(content="")
    async for chunk in chat(max_tokens=8).astream("Say hello"):
        joined += chunk
    assert joined.text
    assert joined.usage_metadata is not None
    assert 1 <= joined.usage_metadata["output_tokens"] <= 8


def check_tools() -> None:
    asked = HumanMessage("Weather in Paris?")
    for choice in ("any", "weather"):
        model = chat().bind_tools([weather], tool_choice=choice, parallel_tool_calls=False)
        called = model.invoke([asked])
        (call,) = called.tool_calls
        assert set(call["args"]) == {"city", "unit"}
        answer = chat().bind_tools([weather]).invoke([asked, called, weather.invoke(call)])
        # A small model may well ask again.
        assert answer.text or answer.tool_calls
    joined = AIMessageChunk(content="")
    for chunk in model.stream([asked]):
        joined += chunk
    assert set(joined.tool_calls[0]["args"]) == {"city", "unit"}


def check_structured_output() -> None:
    for method in ("json_schema", "function_calling"):
        made = chat().with_structured_output(Weather, method=method).invoke("Weather in Paris")
        assert isinstance(made, Weather)


def check_counting() -> None:
    assert chat().get_num_tokens_from_messages([HumanMessage("Say hello")]) > 4


def check_errors() -> None:
    raised(anthropic.NotFoundError, lambda: chat(model="none").invoke("Say hello"))
    error = raised(anthropic.BadRequestError, lambda: chat().invoke("word " * 3000))
    assert type(error).__name__ == "AnthropicContextOverflowError"


if __name__ == "__main__":
    run_checks(globals())
