"""The texts around arguments that stand apart from each other, read off what a template shows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from llmserve.server.conversation.borders import first_piece, shared_beginning
from llmserve.server.conversation.call_probes import ARGUMENTS, KEYS, NAMES, TEXTS, Probe
from llmserve.server.conversation.tool_formats import ArgumentTags, KindTexts

# A value of each JSON type but a string. No template contains the words.
_VALUES: dict[str, Any] = {
    "integer": 7919,
    "number": 7919.5,
    "boolean": True,
    "null": None,
    "object": {"echidna": 7919},
    "array": ["echidna"],
}


@dataclass(frozen=True, slots=True)
class FoundTags:
    """The tags, and what they leave of the texts around them."""

    tags: ArgumentTags
    after_tool_name: str
    after_value: str
    """What follows the last value, as it was found."""


def find_tags(probe: Probe, before_value: str, closing: str, tail: str) -> FoundTags | None:
    """The tags of a call with `ARGUMENTS`.

    `before_value` comes between the tool's name and the first value, `tail` after the last one, and `closing`
    is the part of it that belongs to the call.
    """
    text, empty = probe.calls([ARGUMENTS]), probe.calls([{}])
    opening, key, after_name = before_value.partition(KEYS[0])
    if text is None or empty is None or not key or NAMES[0] not in empty:
        return None
    after_tool = shared_beginning(opening, empty.partition(NAMES[0])[2])
    before_name = opening[len(after_tool) :]
    gap = text.partition(TEXTS[0])[2].partition(TEXTS[1])[0]
    gap, key, _ = gap.rpartition(KEYS[1])
    if not key or not gap.endswith(before_name):
        return None
    # The key may be repeated in what closes its value.
    gap, last = gap.replace(KEYS[0], "{key}"), tail.replace(KEYS[1], "{key}")
    after_value = shared_beginning(gap, last)
    between = gap[len(after_value) : len(gap) - len(before_name)]
    closing = closing[len(after_value.replace("{key}", KEYS[1])) :]
    end = closing if not (piece := first_piece(closing)) else closing[: closing.index(piece) + len(piece)]
    if not closing.strip():
        return None
    tags = ArgumentTags(
        before_name=before_name,
        after_name=after_name,
        after_value=after_value,
        between=between,
        end=_python_end(end),
    )
    tags = replace(tags, kinds=_kinds(probe, tags))
    return FoundTags(tags, after_tool, after_value.replace("{key}", KEYS[1]))


def _python_end(end: str) -> str:
    """One character, where no tag closes the arguments."""
    return end[0] if end and end[0] in ")}]" else end


def _kinds(probe: Probe, tags: ArgumentTags) -> tuple[KindTexts, ...]:
    found = []
    for kind, value in _VALUES.items():
        texts = _around(probe, tags, value)
        if texts is not None and texts != (tags.after_name, tags.after_value):
            found.append(KindTexts(kind, *texts))
    return tuple(found)


def _around(probe: Probe, tags: ArgumentTags, value: Any) -> tuple[str, str] | None:
    """The texts around a value that is shown as JSON or as Python; `None` if it is shown otherwise."""
    text = probe.calls([{KEYS[0]: value, KEYS[1]: TEXTS[1]}]) or ""
    shown, found, _ = text.partition(NAMES[0])[2].partition(f"{KEYS[1]}{tags.after_name}{TEXTS[1]}")
    shown = shown.partition(KEYS[0])[2].removesuffix(tags.between + tags.before_name)
    for written in (json.dumps(value), repr(value)):
        before, key, after = shown.rpartition(written)
        if found and key:
            return before, after.replace(KEYS[0], "{key}")
    return None
