"""An agent that calls Python functions until it can answer, through the OpenAI API of a server.

    llmserve serve model.gguf &
    python agent.py "What is 21 times 2?"

Arguments of calls always match their tool's schema. The first turn must call a tool, which helps small
models; a larger one can begin with `auto`. It needs `pip install openai`.
"""

from __future__ import annotations

import json
import operator
import os
import sys
from typing import Any, Literal

from openai import OpenAI

MAX_TURNS = 5
OPERATIONS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


def calculate(operation: str, a: float, b: float) -> float:
    """A result that no model has to guess."""
    result: float = OPERATIONS[operation](a, b)
    return result


TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "calculate",
            "description": "Calculates with two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "operation": {"enum": list(OPERATIONS)},
                    "a": {"type": "number"},
                    "b": {"type": "number"},
                },
                "required": ["operation", "a", "b"],
            },
        },
    }
]
FUNCTIONS = {"calculate": calculate}


def run(client: OpenAI, question: str) -> str:
    """The answer, after as many calls as it takes."""
    model = client.models.list().data[0].id
    messages: list[Any] = [{"role": "user", "content": question}]
    for turn in range(MAX_TURNS):
        choice: Literal["required", "auto"] = "required" if turn == 0 else "auto"
        answer = client.chat.completions.create(
            model=model, messages=messages, tools=TOOLS, tool_choice=choice, temperature=0, max_tokens=200
        )
        message = answer.choices[0].message
        messages.append(message.to_dict())
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            assert call.type == "function"
            result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
            print(f"{call.function.name}({call.function.arguments}) = {result}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    return ""


if __name__ == "__main__":
    address = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8082/v1")
    print(run(OpenAI(base_url=address, api_key=os.environ.get("OPENAI_API_KEY", "none")), sys.argv[1]))
