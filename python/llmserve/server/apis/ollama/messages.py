"""Ollama's messages as those of a conversation, in the form that chat templates read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of


def conversation_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages, with ids for tool calls and their results, which Ollama's clients leave out.

    A result belongs to the first call of its tool that has none, or else to the first that has none.

    Raises:
        FieldError: A tool call has no name, or its arguments are no object.
    """
    made: list[dict[str, Any]] = []
    waiting: list[tuple[str, str]] = []
    for index, message in enumerate(messages):
        plain: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
        if thinking := message.get("thinking"):
            # Templates know one name or the other.
            plain |= {"thinking": thinking, "reasoning_content": thinking}
        if given := message.get("tool_calls"):
            calls = _calls(given, f"messages[{index}].tool_calls", index)
            plain["tool_calls"] = calls
            waiting = [(call["id"], call["function"]["name"]) for call in calls]
        if message["role"] == "tool":
            plain |= _result(message, waiting)
        made.append(plain)
    return made


def is_prefilled(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last message is the beginning of the answer."""
    last = messages[-1]
    return last["role"] == "assistant" and bool(last.get("content")) and not last.get("tool_calls")


def _result(message: Mapping[str, Any], waiting: list[tuple[str, str]]) -> dict[str, Any]:
    """The fields of a tool's result beside its content; the call it belongs to waits no longer."""
    name, call_id = message.get("tool_name"), message.get("tool_call_id")
    found = next((call for call in waiting if call_id == call[0]), None)
    found = found or next((call for call in waiting if name == call[1]), None)
    found = found or next(iter(waiting), None)
    if found is not None:
        waiting.remove(found)
        call_id, name = call_id or found[0], name or found[1]
    return {field: text for field, text in (("tool_call_id", call_id), ("name", name)) if text}


def _calls(calls: Any, where: str, message_index: int) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise FieldError(where, f"must be an array, got {kind_of(calls)}")
    return [
        _call(call, f"{where}[{index}]", f"{message_index % 100_000:05}{index % 10_000:04}")
        for index, call in enumerate(calls)
    ]


def _call(call: Any, where: str, new_id: str) -> dict[str, Any]:
    """A call as OpenAI has it. Its id has nine letters or digits, which Mistral's templates ask for."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise FieldError(where, "must have a function with a name")
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise FieldError(f"{where}.function.arguments", f"must be an object, got {kind_of(arguments)}")
    given = call.get("id")
    return {
        "id": given if isinstance(given, str) and given else new_id,
        "type": "function",
        "function": {"name": function["name"], "arguments": orjson.dumps(arguments or {}).decode()},
    }
