"""Requests to the OpenAI dialect of a server with the default model."""

from __future__ import annotations

import json
from typing import Any

from serving.client import Answer, events, post
from serving.server import Server

MODEL = "SmolLM2-135M-Instruct.Q4_1"
CAPITAL = "The capital of France is"


def function(name: str, *keys: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": "string"} for key in keys}}
    function = {"name": name, "description": f"Finds the {name}.", "parameters": parameters}
    return {
        "type": "function",
        "function": {**function, "parameters": {**parameters, "required": list(keys)}},
    }


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def chat(server: Server, **body: Any) -> Answer:
    whole = {"model": MODEL, "messages": user("Say hello"), "temperature": 0, "max_tokens": 8, **body}
    return post(server.port, "/v1/chat/completions", whole)


def complete(server: Server, **body: Any) -> Answer:
    whole = {"model": MODEL, "prompt": CAPITAL, "temperature": 0, "max_tokens": 5, **body}
    return post(server.port, "/v1/completions", whole)


def text_of(answer: Answer) -> str:
    """The text of an answer of any of the dialect's routes that generate."""
    assert answer.status == 200, answer.text
    made = answer.json
    if "output" in made:
        return str(made["output"][0]["content"][0]["text"])
    if "content" in made:
        return str(made["content"])
    (choice,) = made["choices"]
    return str(choice["text"] if "text" in choice else choice["message"]["content"])


def chunks(body: str) -> list[Any]:
    *data, done = events(body)
    assert done == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in data]
