"""The role `developer`, OpenAI's newer name for `system`, for templates that do not know it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any


def with_known_roles(
    messages: Sequence[Mapping[str, Any]], template: str, *, takes_systems: bool
) -> list[Mapping[str, Any]]:
    """Messages in the roles of a template.

    System messages at the beginning become one, unless the template ``takes_systems``.
    """
    if "developer" in template:
        return list(messages)
    named = [
        {**message, "role": "system"} if message.get("role") == "developer" else message
        for message in messages
    ]
    return named if takes_systems else _with_one_system(named)


def _with_one_system(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    systems = list(itertools.takewhile(lambda message: message.get("role") == "system", messages))
    if len(systems) < 2:
        return messages
    text = "\n\n".join(filter(None, (text_of(message.get("content")) for message in systems)))
    return [{**systems[0], "content": text}, *messages[len(systems) :]]


def text_of(content: Any) -> str:
    """The text of a message's content, whose parts have been checked."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content if isinstance(content, str) else ""
