"""Ids of tool calls, for templates that show them."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

_LETTERS = string.ascii_letters + string.digits
_SHORT = re.compile(r"[A-Za-z0-9]{9}")


def letters_of(key: str) -> str:
    """Nine letters and digits that follow from a text."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in sha256(key.encode()).digest()[:9])


def with_short_ids(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Messages whose ids of calls are nine letters and digits, which is all that some templates take.

    Ids from elsewhere are replaced, in a call and in its result alike.
    """
    return [_with_short_ids(message) for message in messages]


def _with_short_ids(message: Mapping[str, Any]) -> Mapping[str, Any]:
    calls, result_of = message.get("tool_calls"), message.get("tool_call_id")
    if isinstance(calls, list):
        calls = [
            {**call, "id": _short(call["id"])} if isinstance(call, Mapping) and "id" in call else call
            for call in calls
        ]
        return {**message, "tool_calls": calls}
    return message if result_of is None else {**message, "tool_call_id": _short(result_of)}


def _short(call_id: Any) -> Any:
    if not isinstance(call_id, str) or _SHORT.fullmatch(call_id):
        return call_id
    return letters_of(call_id)
