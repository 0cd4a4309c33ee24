"""What users of `langchain-openai` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Literal

import openai
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

MODEL = os.environ["MODEL"]
BASE: dict[str, Any] = {
    "base_url": os.environ["BASE"],
    "api_key": os.environ["KEY"],
    "model": MODEL,
    "temperature": 0,
    "max_retries": 0,
}


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=20)
    unit: Literal["celsius", "fahrenheit"]
    days: int = Field(ge=1, le=9)


class City(BaseModel):
    """A city."""

    name: str = Field(max_length=20)


class Cities(BaseModel):
    """Cities of a country."""

    country: str = Field(max_length=20)
    cities: list[City] = Field(max_length=3)


@tool
def weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """Finds the weather of a city."""
    return f"12 degrees {unit} in {city}"


@tool
def time(zone: str) -> str:
    """Finds the time in a zone."""
    return f"noon in {zone}"


def chat(**settings: Any) -> ChatOpenAI:
    return ChatOpenAI(**{**BASE, "max_tokens": 60, **settings})


def check_chat() -> None:
    answer = chat(max_tokens=8).invoke([SystemMessage("Be brief."), HumanMessage("Say hello")])
    assert answer.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] <= 8
    assert answer.usage_metadata["input_tokens"] > 8
    assert answer.response_metadata["model_name"] == MODEL
    assert answer.response_metadata["finish_reason"] == "length"


def check_a_chain_and_its_batch() -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "Say {word}")])
    chain = prompt | chat(max_tokens=8) | StrOutputParser()
    assert chain.batch([{"word": "hello"}, {"word": "hello"}]) == 2 * [chain.invoke({"word": "hello"})]


def check_streams_have_the_text_and_the_usage() -> None:
    whole = chat(max_tokens=8).invoke("Say hello")
    joined = AIMessageChunk(content="")
    for chunk in chat(max_tokens=8, stream_usage=True).stream("Say hello"):
        joined += chunk
    assert joined.text == whole.text
    assert joined.usage_metadata is not None
    assert whole.usage_metadata is not None
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        assert joined.usage_metadata[name] == whole.usage_metadata[name]


def check_the_responses_api() -> None:
    model = chat(max_tokens=20, use_responses_api=True)
    whole = model.invoke("Say hello").text
    assert "".join(chunk.text for chunk in model.stream("Say hello")) == whole
    (call,) = model.bind_tools([weather], tool_choice="weather").invoke("Weather in Paris?").tool_calls
    assert set(call["args"]) == {"city", "unit"}


async def check_async() -> None:
    model = chat(max_tokens=8)
    answers = await asyncio.gather(*(model.ainvoke("Say hello") for _ in range(4)))
    streamed = "".join([chunk.text async for chunk in model.astream("Say hello")])
    assert {answer.text for answer in answers} == {streamed}


def check_tools() -> None:
    for choice in ("any", "weather"):
        model = chat().bind_tools([weather], tool_choice=choice)
        (call,) = model.invoke("Weather in Paris?").tool_calls
        assert call["name"] == "weather"
        assert call["args"]["unit"] in ("celsius", "fahrenheit")
        assert weather.invoke(call).content.endswith(call["args"]["city"])
    many = chat().bind_tools([weather, time], tool_choice="any", parallel_tool_calls=False)
    assert many.invoke("Weather in Paris?").tool_calls[0]["name"] in ("weather", "time")
    none = chat(max_tokens=8).bind_tools([weather], tool_choice="none")
    assert none.invoke("Weather in Paris?").tool_calls == []
    auto = chat(max_tokens=8).bind_tools([weather])
    assert isinstance(auto.invoke("Weather in Paris?"), AIMessage)


def check_streamed_tool_calls() -> None:
    model = chat().bind_tools([weather], tool_choice="weather")
    whole = model.invoke("Weather in Paris?")
    joined = AIMessageChunk(content="")
    for chunk in model.stream("Weather in Paris?"):
        joined += chunk
    assert [call["args"] for call in joined.tool_calls] == [call["args"] for call in whole.tool_calls]
    assert joined.response_metadata["finish_reason"] == "tool_calls"


def check_results_of_tools_go_back() -> None:
    asked = HumanMessage("Weather in Paris?")
    called = chat().bind_tools([weather], tool_choice="weather").invoke([asked])
    results = [weather.invoke(call) for call in called.tool_calls]
    assert all(isinstance(result, ToolMessage) for result in results)
    answer = chat().bind_tools([weather]).invoke([asked, called, *results])
    # A small model may well ask again.
    assert answer.text or answer.tool_calls


def check_structured_output() -> None:
    for method in ("json_schema", "function_calling"):
        model = chat(max_tokens=100)
        made = model.with_structured_output(Weather, method=method).invoke("Weather in Paris")
        assert isinstance(made, Weather)
        assert isinstance(model.with_structured_output(Cities, method=method).invoke("France"), Cities)
    raw = chat().with_structured_output(Weather, include_raw=True).invoke("Weather in Paris")
    assert raw["parsing_error"] is None
    assert isinstance(raw["parsed"], Weather)


async def check_structured_output_streamed() -> None:
    streamed = chat().with_structured_output(Weather).astream("Weather in Paris")
    *_, last = [made async for made in streamed]
    assert isinstance(last, Weather)


def check_completions() -> None:
    model = OpenAI(**BASE, max_tokens=2)
    assert model.invoke("The capital of France is") == " Paris."
    assert "".join(model.stream("The capital of France is")) == " Paris."
    assert len(model.generate(["One, two,", "A, B,"]).generations) == 2


def check_other_settings() -> None:
    model = chat(
        max_tokens=8,
        temperature=0.7,
        top_p=0.9,
        seed=7,
        stop_sequences=["\n"],
        frequency_penalty=0.1,
        presence_penalty=0.1,
        logprobs=True,
        top_logprobs=2,
        n=2,
        extra_body={"top_k": 20, "min_p": 0.05},
    )
    made = model.generate([[HumanMessage("Say hello")]])
    again = model.generate([[HumanMessage("Say hello")]])
    texts = [choice.text for choice in made.generations[0]]
    assert len(texts) == 2
    assert [choice.text for choice in again.generations[0]] == texts
    logprobs = chat(max_tokens=4, logprobs=True).invoke("Say hello").response_metadata["logprobs"]
    assert 1 <= len(logprobs["content"]) <= 4


def check_errors() -> None:
    error = raised(openai.BadRequestError, lambda: chat(temperature=-1).invoke("Say hello"))
    assert (error.param, error.code) == ("temperature", "invalid_value")
    error = raised(openai.NotFoundError, lambda: chat(model="none").invoke("Say hello"))
    assert error.code == "model_not_found"
    error = raised(openai.AuthenticationError, lambda: chat(api_key="wrong").invoke("Say hello"))
    assert error.code == "invalid_api_key"
    # LangChain makes this one of it, which is a BadRequestError, too.
    error = raised(openai.BadRequestError, lambda: chat().invoke("word " * 3000))
    assert type(error).__name__ == "OpenAIContextOverflowError"
    error = raised(openai.BadRequestError, lambda: list(chat(temperature=-1).stream("Say hello")))
    assert error.param == "temperature"


if __name__ == "__main__":
    run_checks(globals())
