"""Conversations with calls whose every word can be found again in what a template makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.templates.capabilities import Capabilities, call_message, rendered

NAMES = ("find_wombat", "feed_quokka", "wake_numbat")
IDS = ("call00001", "call00002", "call00003")
LONG_ID = "call_a1B2c3D4e"
KEYS = ("burrow", "tunnel")
TEXTS = ("marsupial", "monotreme")
ARGUMENTS: Mapping[str, Any] = dict(zip(KEYS, TEXTS, strict=True))
WORDS = "Echidnas are asleep."
THOUGHT = "possums ponder"
# The names under which templates read an assistant's reasoning.
_REASONING = ("reasoning_content", "thinking", "reasoning")
_MAX_CHARACTERS = 100_000
"""Nothing is read off longer texts."""
_QUESTION = "Where are the bandicoots?"


class Probe:
    """Renders such conversations; every text begins behind the user's words."""

    def __init__(self, takes: Capabilities) -> None:
        self._takes = takes

    def calls(
        self,
        arguments: Sequence[Mapping[str, Any]],
        *,
        words: str = "",
        thought: str = "",
        ids: Sequence[str] = IDS,
    ) -> str | None:
        """An assistant's message with calls, given words and reasoning, and the results of the calls."""
        calls = [self._call(*call) for call in zip(NAMES, arguments, ids, strict=False)]
        message = call_message(calls, self._takes.empty_content)
        message |= {"content": words} if words else {}
        message |= dict.fromkeys(_REASONING, thought) if thought else {}
        results = [
            {"role": "tool", "tool_call_id": id_, "name": name, "content": "c"}
            for name, id_ in zip(NAMES[: len(calls)], ids, strict=False)
        ]
        return self._shown([message, *results])

    def words(self, thought: str = "") -> str | None:
        """An assistant's message of words, with reasoning if any is given."""
        message = {"role": "assistant", "content": WORDS}
        return self._shown([message | (dict.fromkeys(_REASONING, thought) if thought else {})])

    def beginning(self) -> str | None:
        """What the template writes before the model does."""
        return self._shown([], adds_prompt=True)

    def _call(self, name: str, arguments: Mapping[str, Any], id_: str) -> dict[str, Any]:
        given: Any = arguments if self._takes.takes_objects else json.dumps(arguments)
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": given}}

    def _shown(self, messages: Sequence[dict[str, Any]], *, adds_prompt: bool = False) -> str | None:
        question = {"role": "user", "content": _QUESTION}
        tools = [_tool(name) for name in NAMES]
        for declared in (tools, None):
            text = rendered(self._takes.source, [question, *messages], declared, adds_prompt=adds_prompt)
            if text is not None and _QUESTION in text and len(text) < _MAX_CHARACTERS:
                return text[text.rindex(_QUESTION) + len(_QUESTION) :]
        return None


def _tool(name: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": "A word."} for key in KEYS}
    parameters = {"type": "object", "properties": properties, "required": list(KEYS)}
    return {
        "type": "function",
        "function": {"name": name, "description": "Does it.", "parameters": parameters},
    }
