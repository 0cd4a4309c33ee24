"""What users of `ollama` do. Runs in an environment that has it (see `checks`); `OLLAMA_HOST` and
`OLLAMA_API_KEY` are the client's own variables."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import ollama
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

MODEL, CALLER, THINKER, EMBEDDER = (os.environ[name] for name in ("MODEL", "CALLER", "THINKER", "EMBEDDER"))
PULLED = "hf.co/org/Tiny-GGUF:Q4_0"
SHORT = {"temperature": 0, "num_predict": 8}
HELLO = [{"role": "user", "content": "Say hello"}]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def get_weather(city: str) -> str:
    """Finds the weather of a city.

    Args:
        city: The city.
    """
    return f"12 degrees in {city}"


def called(city: str, weather: str) -> list[dict[str, Any]]:
    """A turn with two calls, which the model copies."""
    call = {"function": {"name": "get_weather", "arguments": {"city": city}}}
    result = {"role": "tool", "content": weather, "tool_name": "get_weather"}
    return [
        {"role": "user", "content": f"Weather in {city}?"},
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        result,
        result,
        {"role": "assistant", "content": f"It is {weather}."},
    ]


CALLED = [*called("Rome", "sunny"), *called("Oslo", "cold"), *called("Lima", "dry")]
ASKED = [*CALLED, {"role": "user", "content": "Weather in Paris?"}]


def check_chat() -> None:
    answer = ollama.chat(MODEL, HELLO, options=SHORT)
    assert answer.message.role == "assistant"
    assert answer.message.content
    assert (answer.done, answer.done_reason, answer.eval_count) == (True, "length", 8)
    assert answer.total_duration >= answer.eval_duration > 0
    parts = list(ollama.chat(MODEL, HELLO, options=SHORT, stream=True))
    assert "".join(part.message.content for part in parts) == answer.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].prompt_eval_count == answer.prompt_eval_count


async def check_async() -> None:
    client = ollama.AsyncClient()
    whole = await client.chat(MODEL, HELLO, options=SHORT)
    parts = [part async for part in await client.chat(MODEL, HELLO, options=SHORT, stream=True)]
    assert "".join(part.message.content for part in parts) == whole.message.content
    generated = await client.generate(MODEL, "Say hello", options=SHORT)
    assert generated.response == whole.message.content
    assert (await client.list()).models
    assert (await client.show(MODEL)).details.family == "llama"
    assert len((await client.embed(EMBEDDER, "The sea")).embeddings) == 1


def check_generate() -> None:
    first = ollama.generate(MODEL, "Say hello", system="Be brief.", options=SHORT)
    assert first.response
    streamed = ollama.generate(MODEL, "Say hello", system="Be brief.", options=SHORT, stream=True)
    assert "".join(part.response for part in streamed) == first.response
    second = ollama.generate(MODEL, "Say it again", context=first.context, options=SHORT)
    assert second.prompt_eval_count > len(first.context)
    raw = ollama.generate(MODEL, "The capital of France is", raw=True, options=SHORT)
    assert raw.response.startswith(" Paris")
    assert raw.context is None


def check_structured_outputs() -> None:
    question = [{"role": "user", "content": "Bob is 5"}]
    options = {"temperature": 0, "num_predict": 60}
    answer = ollama.chat(MODEL, question, format=Person.model_json_schema(), options=options)
    Person.model_validate_json(answer.message.content)
    parts = ollama.generate(
        MODEL, "Bob is 5", format=Person.model_json_schema(), options=options, stream=True
    )
    Person.model_validate_json("".join(part.response for part in parts))
    assert ollama.generate(MODEL, "Bob", format="json", options=options).response.startswith("{")


def check_a_tool_loop() -> None:
    options = {"temperature": 0, "num_predict": 80, "repeat_penalty": 1}
    answer = ollama.chat(CALLER, ASKED, tools=[get_weather], options=options)
    assert answer.done_reason == "stop"
    calls = answer.message.tool_calls
    assert len(calls) == 2
    for call in calls:
        assert (call.function.name, call.function.arguments) == ("get_weather", {"city": "Paris"})
    streamed = ollama.chat(CALLER, ASKED, tools=[get_weather], options=options, stream=True)
    assert [call for part in streamed for call in part.message.tool_calls or ()] == calls
    results = [
        {"role": "tool", "content": get_weather(**call.function.arguments), "tool_name": call.function.name}
        for call in calls
    ]
    then = ollama.chat(CALLER, [*ASKED, answer.message, *results], tools=[get_weather], options=options)
    assert then.message.content
    assert not then.message.tool_calls


def check_thinking() -> None:
    turns: list[dict[str, Any]] = []
    for city in ("Rome", "Oslo", "Lima"):
        turns += [
            {"role": "user", "content": f"Where is {city}?"},
            {"role": "assistant", "content": f"{city} is a city.", "thinking": f"They ask about {city}."},
        ]
    turns.append({"role": "user", "content": "Where is Paris?"})
    options = {"temperature": 0, "num_predict": 80}
    answer = ollama.chat(THINKER, turns, think=True, options=options)
    assert "Paris" in answer.message.thinking
    assert "Paris" in answer.message.content
    parts = list(ollama.chat(THINKER, turns, think="high", options=options, stream=True))
    assert "".join(part.message.thinking or "" for part in parts) == answer.message.thinking
    assert "".join(part.message.content for part in parts) == answer.message.content
    assert not ollama.chat(THINKER, turns, think=False, options=options).message.thinking
    error = raised(ollama.ResponseError, lambda: ollama.chat(MODEL, HELLO, think=True))
    assert "does not support thinking" in error.error


def check_log_probabilities() -> None:
    answer = ollama.chat(MODEL, HELLO, logprobs=True, top_logprobs=2, options=SHORT)
    assert "".join(entry.token for entry in answer.logprobs) == answer.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in answer.logprobs)


def check_embeddings() -> None:
    vectors = ollama.embed(EMBEDDER, ["The sea", "is deep"]).embeddings
    assert [round(sum(value**2 for value in vector), 3) for vector in vectors] == [1, 1]
    assert len(ollama.embed(EMBEDDER, "The sea " * 2000).embeddings[0]) == len(vectors[0])
    assert len(ollama.embeddings(EMBEDDER, "The sea").embedding) == len(vectors[0])


def check_the_lists() -> None:
    ollama.generate(MODEL, keep_alive="5m")
    names = [model.model for model in ollama.list().models]
    assert {f"{name}:latest" for name in (MODEL, CALLER, THINKER, EMBEDDER)} <= set(names)
    listed = {model.model: model for model in ollama.list().models}[f"{MODEL}:latest"]
    assert listed.details.quantization_level == "Q4_1"
    running = {model.model: model for model in ollama.ps().models}[f"{MODEL}:latest"]
    assert running.expires_at > datetime.now(UTC)
    assert running.context_length == 2048
    assert ollama.show(EMBEDDER).capabilities == ["embedding"]
    assert "tools" in ollama.show(CALLER).capabilities
    assert "thinking" in ollama.show(THINKER).capabilities


def check_unloading() -> None:
    assert ollama.generate(EMBEDDER, keep_alive=0).done_reason == "unload"
    assert f"{EMBEDDER}:latest" not in [model.model for model in ollama.ps().models]


def check_pull_and_delete() -> None:
    client = ollama.Client(os.environ["FOLDER"])
    told = list(client.pull(PULLED, stream=True))
    assert told[-1].status == "success"
    assert any(one.total and one.completed == one.total for one in told)
    assert client.pull(PULLED).status == "success"
    assert client.chat(PULLED, HELLO, options=SHORT).done
    assert [model.model for model in client.list().models] == ["org/Tiny-Q4_0:latest"]
    assert client.delete(PULLED).status == "success"
    assert client.list().models == []
    error = raised(ollama.ResponseError, lambda: client.pull("llama3.2"))
    assert "hf.co/" in error.error
    assert raised(ollama.ResponseError, lambda: list(client.pull("hf.co/org/None", stream=True))).error


def check_errors() -> None:
    error = raised(ollama.ResponseError, lambda: ollama.chat("none", HELLO))
    assert (error.status_code, error.error[:22]) == (404, "model 'none' not found")
    assert (
        raised(ollama.ResponseError, lambda: list(ollama.chat("none", HELLO, stream=True))).status_code == 404
    )
    long = [{"role": "user", "content": "word " * 3000}]
    error = raised(ollama.ResponseError, lambda: ollama.chat(MODEL, long))
    assert "2048 tokens" in error.error
    assert raised(ollama.ResponseError, lambda: ollama.copy(MODEL, "b")).status_code == 501
    assert raised(ollama.ResponseError, lambda: ollama.create("b", from_=MODEL)).status_code == 501
    locked = ollama.Client(headers={"Authorization": "Bearer wrong"})
    assert raised(ollama.ResponseError, lambda: locked.list()).status_code == 401


if __name__ == "__main__":
    run_checks(globals())
