"""Tools for models whose chat template has no place for them: they come as text.

The model is told of the tools in a system message, or in the user's first one where the template takes no
other, its calls stand in its own turns, and results come as messages of the user.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.server.conversation.alternation import with_text_of_user
from llmserve.server.conversation.tools import Tool

_INTRODUCTION = (
    "You can call the tools below. To call one, answer with nothing but a JSON object with its name and its "
    'arguments, such as {"name": "the tool", "arguments": {"a": 1}}. The tools:'
)


def with_tools(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool], *, has_system: bool = True
) -> list[Mapping[str, Any]]:
    """Messages in which tools, calls and results are text."""
    shown: list[Mapping[str, Any]] = [_message(message) for message in messages]
    if not tools:
        return shown
    lines = [json.dumps(tool.template_form["function"], ensure_ascii=False) for tool in tools]
    text = "\n".join([_INTRODUCTION, *lines])
    if not has_system:
        return with_text_of_user(shown, text)
    if shown and shown[0].get("role") in ("system", "developer"):
        content = shown[0].get("content") or ""
        if isinstance(content, str):
            content = f"{content}\n\n{text}" if content else text
        else:
            content = [*content, {"type": "text", "text": f"\n\n{text}"}]
        return [{**shown[0], "content": content}, *shown[1:]]
    return [{"role": "system", "content": text}, *shown]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message.get("role") == "tool":
        prefix = "Result of the tool call: "
        content = message.get("content") or ""
        if not isinstance(content, str):
            return {"role": "user", "content": [{"type": "text", "text": prefix}, *content]}
        return {"role": "user", "content": prefix + content}
    calls = message.get("tool_calls")
    if not calls or not isinstance(calls, list):
        return dict(message)
    text = "\n".join(_call(call) for call in calls)
    content = message.get("content")
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    if isinstance(content, list):
        return {**kept, "content": [*content, {"type": "text", "text": f"\n{text}"}]}
    return {**kept, "content": f"{content}\n{text}" if content else text}


def _call(call: Any) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else {}
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if isinstance(arguments, str):
        # What a model wrote need not be JSON, nor JSON that can be written again.
        with contextlib.suppress(ValueError, RecursionError):
            return _written(name, json.loads(arguments) if arguments.strip() else None)
    return _written(name, arguments)


def _written(name: object, arguments: object) -> str:
    call = {"name": name, "arguments": {} if arguments is None else arguments}
    return json.dumps(call, ensure_ascii=False)
