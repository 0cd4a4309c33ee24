"""What users of `llama-index-llms-ollama` and `llama-index-embeddings-ollama` do. Runs in an environment that
has them (see `checks`)."""

from __future__ import annotations

import os
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel, Field

from clients.checks import run_checks

MODEL, CALLER, EMBEDDER, HOST = (os.environ[name] for name in ("MODEL", "CALLER", "EMBEDDER", "OLLAMA_HOST"))


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int


def get_weather(city: str) -> str:
    """Finds the weather of a city."""
    return f"12 degrees in {city}"


def llm(**settings: Any) -> Ollama:
    options = {"num_predict": settings.pop("num_predict", 8), "repeat_penalty": 1}
    given = {"model": MODEL, "base_url": HOST, "temperature": 0, "additional_kwargs": options}
    # Its own 30 seconds are too short for a busy machine.
    return Ollama(**{**given, "request_timeout": 600, **settings})


def check_complete() -> None:
    whole = llm().complete("Say hello").text
    assert whole
    *_, last = llm().stream_complete("Say hello")
    assert last.text == whole


def check_chat() -> None:
    messages = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Say hello"),
    ]
    whole = llm().chat(messages)
    assert whole.message.content
    *_, last = llm().stream_chat(messages)
    assert last.message.content == whole.message.content


async def check_async() -> None:
    whole = await llm().acomplete("Say hello")
    parts = [part async for part in await llm().astream_complete("Say hello")]
    assert parts[-1].text == whole.text


def check_structured_output() -> None:
    prompt = PromptTemplate("{text}")
    made = llm(num_predict=60).structured_predict(Person, prompt, text="Bob is 5")
    assert isinstance(made, Person)


def check_a_tool_call() -> None:
    tool = FunctionTool.from_defaults(get_weather)
    history: list[ChatMessage] = []
    for city, weather in (("Rome", "sunny"), ("Oslo", "cold"), ("Lima", "dry")):
        call = {"function": {"name": "get_weather", "arguments": {"city": city}}}
        result = ChatMessage(role="tool", content=weather, additional_kwargs={"tool_call_id": "get_weather"})
        history += [
            ChatMessage(role="user", content=f"Weather in {city}?"),
            ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call, call]}),
            result,
            result,
            ChatMessage(role="assistant", content=f"It is {weather}."),
        ]
    model = llm(model=CALLER, num_predict=80)
    answer = model.chat_with_tools([tool], user_msg="Weather in Paris?", chat_history=history)
    calls = model.get_tool_calls_from_response(answer)
    assert calls
    assert all((call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Paris"}) for call in calls)


def check_the_context_window_is_the_models() -> None:
    assert llm().metadata.context_window == 8192


def check_embeddings() -> None:
    model = OllamaEmbedding(model_name=EMBEDDER, base_url=HOST)
    assert len(model.get_text_embedding("The sea")) == len(model.get_query_embedding("sea"))
    assert len(model.get_text_embedding_batch(["The sea", "is deep"])) == 2


if __name__ == "__main__":
    run_checks(globals())
