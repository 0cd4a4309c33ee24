"""What users of `langchain-ollama` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from typing import Any

import ollama
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

MODEL, CALLER, EMBEDDER = (os.environ[name] for name in ("MODEL", "CALLER", "EMBEDDER"))


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int


@tool
def get_weather(city: str) -> str:
    """Finds the weather of a city."""
    return f"12 degrees in {city}"


def chat(**settings: Any) -> ChatOllama:
    return ChatOllama(**{"model": MODEL, "temperature": 0, "num_predict": 8, **settings})


def check_chat() -> None:
    answer = chat(validate_model_on_init=True).invoke([SystemMessage("Be brief."), HumanMessage("Say hello")])
    assert answer.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 8
    assert answer.response_metadata["done_reason"] == "length"


def check_streams() -> None:
    whole = chat().invoke("Say hello")
    joined = AIMessageChunk(content="")
    for chunk in chat().stream("Say hello"):
        joined += chunk
    assert joined.text == whole.text
    assert joined.usage_metadata == whole.usage_metadata


async def check_async() -> None:
    whole = await chat().ainvoke("Say hello")
    assert "".join([chunk.text async for chunk in chat().astream("Say hello")]) == whole.text


def check_structured_output() -> None:
    for method in ("json_schema", "function_calling"):
        model = chat(num_predict=60).with_structured_output(Person, method=method, include_raw=True)
        made = model.invoke("Bob is 5")
        # The small model may not call; what it gives otherwise is as the schema says.
        if method == "json_schema":
            assert isinstance(made["parsed"], Person)


def check_a_tool_loop() -> None:
    messages: list[Any] = []
    for city, weather in (("Rome", "sunny"), ("Oslo", "cold"), ("Lima", "dry")):
        calls = [{"name": "get_weather", "args": {"city": city}, "id": f"call{city}{n}"} for n in range(2)]
        messages += [
            HumanMessage(f"Weather in {city}?"),
            AIMessage("", tool_calls=calls),
            *(ToolMessage(weather, tool_call_id=call["id"]) for call in calls),
            AIMessage(f"It is {weather}."),
        ]
    messages.append(HumanMessage("Weather in Paris?"))
    model = chat(model=CALLER, num_predict=80, repeat_penalty=1).bind_tools([get_weather])
    answer = model.invoke(messages)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == 2 * [
        ("get_weather", {"city": "Paris"})
    ]
    results = [get_weather.invoke(call) for call in answer.tool_calls]
    assert model.invoke([*messages, answer, *results]).text


def check_the_older_class() -> None:
    model = OllamaLLM(model=MODEL, temperature=0, num_predict=8)
    assert "".join(model.stream("Say hello")) == model.invoke("Say hello")


def check_embeddings() -> None:
    model = OllamaEmbeddings(model=EMBEDDER)
    first, second = model.embed_documents(["The sea", "is deep"])
    assert len(first) == len(second)
    # Alone it is summed in another order.
    assert all(abs(a - b) < 1e-5 for a, b in zip(model.embed_query("The sea"), first, strict=True))


def check_errors() -> None:
    assert "not found" in str(raised(ollama.ResponseError, lambda: chat(model="none").invoke("Say hello")))
    raised(ValueError, lambda: chat(model="none", validate_model_on_init=True))


if __name__ == "__main__":
    run_checks(globals())
