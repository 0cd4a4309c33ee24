"""Messages of content blocks as the messages that chat templates read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import read_object, text_in
from llmserve.server.web.schema import kind_of, shown

# Of Claude Code, before the system message; it differs in each request, which no prefix cache survives.
_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n?")

_KINDS: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "user": ("text", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}
"""The blocks that messages of each role may have."""


class History(NamedTuple):
    """A conversation as templates read it."""

    messages: list[dict[str, Any]]
    names: dict[str, str]
    """What messages and calls are in the request."""
    continues: bool
    """Whether the answer continues the last message."""


def history_of(request: MessagesRequest) -> History:
    """The system message and the messages; those of one role in a row become one.

    Raises:
        FieldError: A message cannot be shown to a model.
    """
    reading = _Reading()
    if text := _system_text(request.system):
        reading.append({"role": "system", "content": text}, "system")
    for index, message in enumerate(request.messages):
        reading.read(message, f"messages[{index}]")
    last = reading.messages[-1] if reading.messages else {}
    if last.get("role") != "assistant":
        return History(reading.messages, reading.names, continues=False)
    if last.get("tool_calls"):
        where = f"messages[{len(request.messages) - 1}]"
        raise FieldError(where, "must not end with a tool_use: the tool_result of each call must follow")
    if not last["content"]:
        reading.messages.pop()
        return History(reading.messages, reading.names, continues=False)
    return History(reading.messages, reading.names, continues=True)


def _system_text(system: Any) -> str:
    blocks = _blocks(system or "", "system", ("text",))
    texts = [_BILLING.sub("", text_in(block, "text", where)) for block, where in blocks]
    return "\n".join(filter(None, texts))


class _Reading:
    """Collects messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self._called: dict[str, str] = {}
        """The tools of calls, by their ids."""

    def append(self, message: dict[str, Any], where: str) -> None:
        """Adds a message of its own."""
        self.names[f"messages[{len(self.messages)}]"] = where
        self.messages.append(message)

    def read(self, message: Mapping[str, Any], where: str) -> None:
        """Adds the blocks of a message."""
        role = message["role"]
        if role not in _KINDS:
            raise FieldError(f"{where}.role", f"must be user, assistant or system, got {shown(role)}")
        content = message.get("content")
        if content is None:
            raise FieldError(f"{where}.content", "is required")
        for block, place in _blocks(content, f"{where}.content", _KINDS[role]):
            if role == "assistant":
                self._read_of_assistant(block, place, where)
            elif block["type"] == "tool_result":
                self._result(block, place)
            else:
                self._say(role, text_in(block, "text", place), where)
        if role == "assistant" and not content:
            self._assistant(where)

    def _say(self, role: str, text: str, where: str) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += f"\n{text}"
        else:
            self.append({"role": role, "content": text}, where)

    def _read_of_assistant(self, block: Mapping[str, Any], place: str, where: str) -> None:
        message = self._assistant(where)
        if block["type"] == "text":
            message["content"] += text_in(block, "text", place)
        elif block["type"] == "thinking":
            thought = text_in(block, "thinking", place)
            message["reasoning_content"] = message.get("reasoning_content", "") + thought
        elif block["type"] == "tool_use":
            self._call(message, block, place)

    def _assistant(self, where: str) -> dict[str, Any]:
        """The assistant's message that is being read."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.append({"role": "assistant", "content": ""}, where)
        return self.messages[-1]

    def _call(self, message: dict[str, Any], block: Mapping[str, Any], place: str) -> None:
        call_id, name = text_in(block, "id", place), text_in(block, "name", place)
        arguments = read_object(block.get("input", {}), f"{place}.input")
        self._called[call_id] = name
        calls = message.setdefault("tool_calls", [])
        self.names[f"messages[{len(self.messages) - 1}].tool_calls[{len(calls)}].function"] = place
        function = {"name": name, "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": function})

    def _result(self, block: Mapping[str, Any], place: str) -> None:
        call_id = text_in(block, "tool_use_id", place)
        content = block.get("content") or ""
        parts = _blocks(content, f"{place}.content", ("text",))
        text = "\n".join(text_in(part, "text", where) for part, where in parts)
        if block.get("is_error"):
            text = f"Error: {text}"
        message = {"role": "tool", "tool_call_id": call_id, "content": text}
        if call_id in self._called:
            message["name"] = self._called[call_id]
        self.append(message, place)


def _blocks(content: Any, where: str, kinds: tuple[str, ...]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The blocks of content, with their places in the request."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}, where
        return
    if not isinstance(content, list | tuple):
        raise FieldError(where, f"must be a string or an array of blocks, got {kind_of(content)}")
    for index, item in enumerate(content):
        place = f"{where}[{index}]"
        block = read_object(item, place)
        if (kind := block.get("type")) not in kinds:
            raise FieldError(
                f"{place}.type", f"must be {_or(kinds)}, got {shown(kind)}: llmserve reads text only"
            )
        yield block, place


def _or(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
