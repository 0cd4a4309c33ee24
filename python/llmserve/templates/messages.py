"""Messages as clients send them, made into what a template takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.errors import InvalidParameterError, TemplateError
from llmserve.templates.capabilities import Capabilities

__all__ = ["adapted", "find_odd_arguments", "normalized"]

# The names under which an assistant's reasoning comes; templates read the first, gpt-oss's the second.
_REASONING = ("reasoning_content", "thinking", "reasoning")

# The names of text parts in the dialects of OpenAI.
_TEXT_PARTS = ("text", "input_text", "output_text")


def normalized(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as transformers hand them to a template.

    Fields that are null are left out, and an assistant's reasoning stands under the names that templates
    read. Raises `InvalidParameterError` for an invalid message.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise _refused("messages", "a list of messages", messages)
    return [_normalized(f"messages[{index}]", message) for index, message in enumerate(messages)]


def _normalized(name: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _refused(name, "a mapping", message)
    result = {key: value for key, value in message.items() if value is not None}
    for field in _REASONING:
        if field in result:
            return {"thinking": result[field], **result, "reasoning_content": result[field]}
    return result


def adapted(messages: Sequence[Mapping[str, Any]], takes: Capabilities) -> list[dict[str, Any]]:
    """The messages with content and tool calls in a form that the template shows.

    - Content in text parts stays a list where the template takes one for that role; else the parts' texts are
      joined as they are. A string becomes one part where the template takes parts only.
    - No content (null) is an empty string, or beside tool calls what the template takes for that.
    - Arguments of tool calls, JSON text by OpenAI's habit, become objects, or text where the template wants
      text; missing, null and empty ones are an empty object. For a template without tool calls they go into
      the content as JSON.

    Raises `InvalidParameterError` for an invalid message or text, and `TemplateError` for a message that the
    template would leave out.
    """
    pairs = zip(messages, normalized(messages), strict=True)
    return [_message(f"messages[{index}]", *pair, takes) for index, pair in enumerate(pairs)]


def _message(
    name: str, message: Mapping[str, Any], result: dict[str, Any], takes: Capabilities
) -> dict[str, Any]:
    role = message.get("role")
    if not isinstance(role, str):
        raise _refused(f"{name}.role", "a string", role)
    if takes.hides(role):
        raise TemplateError(f"{name}: the chat template does not show messages of the role {role!r}")
    calls = message.get("tool_calls")
    if calls is not None and (isinstance(calls, str) or not isinstance(calls, Sequence)):
        raise _refused(f"{name}.tool_calls", "a list", calls)
    if calls:
        result["tool_calls"] = [_call(f"{name}.tool_calls[{i}]", call, takes) for i, call in enumerate(calls)]
    if "content" in message or calls:
        result["content"] = _content(f"{name}.content", message.get("content"), role, takes)
    if calls:
        _settle_content(result, takes)
    return result


def _content(name: str, content: Any, role: str, takes: Capabilities) -> str | list[dict[str, Any]]:
    if content is None:
        content = ""
    if isinstance(content, str):
        is_part = not takes.takes_strings and role in takes.part_roles
        return [{"type": "text", "text": content}] if is_part else content
    if not isinstance(content, Sequence):
        raise _refused(name, "a string or a list of parts", content)
    texts = [_part_text(f"{name}[{index}]", part) for index, part in enumerate(content)]
    if role in takes.part_roles:
        return [{"type": "text", "text": text} for text in texts]
    return "".join(texts)


def _part_text(name: str, part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise _refused(name, "a mapping", part)
    kind = part.get("type", "text")
    if kind not in _TEXT_PARTS:
        raise _refused(f"{name}.type", "`text` (this model takes no other parts)", kind)
    text = part.get("text")
    if not isinstance(text, str):
        raise _refused(f"{name}.text", "a string", text)
    return text


def _call(name: str, call: Any, takes: Capabilities) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise _refused(name, "a mapping", call)
    if isinstance(call.get("function"), Mapping):
        return {**call, "function": _call(f"{name}.function", call["function"], takes)}
    return {**call, "arguments": _arguments(call.get("arguments"), takes.takes_objects)}


def _arguments(arguments: Any, takes_objects: bool) -> Any:
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in ("", "null")):
        arguments = {}
    if not takes_objects:
        return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        # What a model wrote need not be JSON; the template shows it unchanged, or refuses it.
        return arguments


def find_odd_arguments(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]] | None:
    """The name of the first arguments that are no object, and adapted messages in which all are; `None` if
    all are already."""
    odd: list[str] = []

    def mended(name: str, call: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(call.get("function"), Mapping):
            return {**call, "function": mended(f"{name}.function", call["function"])}
        if isinstance(call.get("arguments", {}), Mapping):
            return dict(call)
        odd.append(f"{name}.arguments")
        return {**call, "arguments": {}}

    result = [
        {**message, "tool_calls": [mended(f"messages[{index}].tool_calls[{i}]", call) for i, call in calls]}
        if (calls := list(enumerate(message.get("tool_calls") or ())))
        else dict(message)
        for index, message in enumerate(messages)
    ]
    return (odd[0], result) if odd else None


def _settle_content(message: dict[str, Any], takes: Capabilities) -> None:
    """Gives a message with tool calls the content that the template wants there."""
    if not takes.shows_tool_calls:
        _move_calls_into_content(message, takes)
    elif not message["content"] or message["content"] == [{"type": "text", "text": ""}]:
        if takes.empty_content == "absent":
            del message["content"]
        else:
            message["content"] = None if takes.empty_content == "null" else ""


def _move_calls_into_content(message: dict[str, Any], takes: Capabilities) -> None:
    calls = [call.get("function", call) for call in message.pop("tool_calls")]
    shown = [{"name": call.get("name"), "arguments": call.get("arguments")} for call in calls]
    text = json.dumps({"tool_calls": shown}, ensure_ascii=False)
    content = message["content"]
    if isinstance(content, str):
        message["content"] = f"{content}\n{text}" if content else text
    else:
        message["content"] = [*content, {"type": "text", "text": text}]


def _refused(name: str, expected: str, value: object) -> InvalidParameterError:
    shown = repr(value)
    shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
    return InvalidParameterError(f"must be {expected}, got {shown}", field=name)
