"""An agent that calls Python functions until it can answer, through the OpenAI API of a server.

    llmserve serve model.gguf &
    python agent.py "How is the weather in Paris?"

Arguments of calls always match their tool's schema. The first turn must call a tool, which helps small
models; a larger one can begin with `auto`. It needs `pip install openai`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Literal

from openai import OpenAI

MAX_TURNS = 5


def weather(city: str) -> str:
    """The weather now."""
    return {"Paris": "rain, 12 °C", "Rome": "sunny, 21 °C"}.get(city, "unknown")


def population(city: str) -> str:
    """The number of inhabitants."""
    return {"Paris": "2.1 million", "Rome": "2.7 million"}.get(city, "unknown")


FUNCTIONS = {function.__name__: function for function in (weather, population)}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": function.__doc__, "parameters": CITY}}
    for name, function in FUNCTIONS.items()
]


def choice_of(turn: int) -> Literal["required", "auto", "none"]:
    """Whether this turn calls tools: the first does, and the last one has to answer."""
    if turn == 0:
        return "required"
    return "auto" if turn < MAX_TURNS - 1 else "none"


def run(client: OpenAI, question: str) -> str:
    """The answer, after as many calls as it takes."""
    model = client.models.list().data[0].id
    messages: list[Any] = [{"role": "user", "content": question}]
    for turn in range(MAX_TURNS):
        answer = client.chat.completions.create(
            model=model,
            messages=messages,
            tools=TOOLS,
            tool_choice=choice_of(turn),
            temperature=0,
            max_tokens=200,
        )
        message = answer.choices[0].message
        messages.append(message.to_dict())
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            assert call.type == "function"
            result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
            print(f"{call.function.name}({call.function.arguments}) = {result}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise RuntimeError("the last turn called a tool")


if __name__ == "__main__":
    address = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8082/v1")
    print(run(OpenAI(base_url=address, api_key=os.environ.get("OPENAI_API_KEY", "none")), sys.argv[1]))
