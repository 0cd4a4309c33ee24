"""Messages for templates in which users and the assistant must take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_JOINED_TO = ("user", "tool")


def alternating(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Messages in which what a user says after a message of theirs, or after a result, is part of that."""
    joined: list[Mapping[str, Any]] = []
    for message in messages:
        if message.get("role") == "user" and joined and joined[-1].get("role") in _JOINED_TO:
            last = joined[-1]
            joined[-1] = {**last, "content": _both(last.get("content"), message.get("content"))}
        else:
            joined.append(message)
    return joined


def with_text_of_user(messages: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Messages in which the first one of the user begins with a text."""
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            first = {**message, "content": _both(text, message.get("content"))}
            return [*messages[:index], first, *messages[index + 1 :]]
    return [{"role": "user", "content": text}, *messages]


def _both(first: Any, second: Any) -> Any:
    if isinstance(first, list) or isinstance(second, list):
        return [*_parts(first), *_parts(second, before="\n\n")]
    return "\n\n".join(filter(None, (first, second)))


def _parts(content: Any, before: str = "") -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": before + content}] if content else []
