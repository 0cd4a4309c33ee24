"""The format of a model's calls, read off what its template makes of conversations with calls.

Three calls show what stands around names and arguments, what separates two calls, and what is numbered.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from llmserve.server.conversation.borders import first_piece, shared_beginning, shared_end
from llmserve.server.conversation.call_probes import (
    ARGUMENTS,
    IDS,
    LONG_ID,
    NAMES,
    TEXTS,
    THOUGHT,
    WORDS,
    Probe,
)
from llmserve.server.conversation.tag_frames import find_tags
from llmserve.server.conversation.tool_formats import ArgumentTags, IdStyle, ToolFormat
from llmserve.templates.capabilities import capabilities
from llmserve.templates.limits import within_limits

_DIGITS = re.compile(r"\d+")
_PYTHON_TAG = "<|python_tag|>"


@functools.lru_cache(maxsize=64)
def derived_format(source: str) -> ToolFormat | None:
    """The format that a template shows; `None` if it shows none, or if names do not come before arguments."""
    takes = capabilities(source)
    if not takes.shows_tool_calls:
        return None
    with within_limits():
        return _derived(Probe(takes))


def _derived(probe: Probe) -> ToolFormat | None:
    text = probe.calls([ARGUMENTS]) or ""
    call = _find(text, 0)
    if call is None:
        return None
    head, tail, gaps = _head(probe, text[: call.name]), text[call.end :], _find_gaps(probe)
    closing = shared_beginning(tail, gaps.first) if gaps.first else _before_end(probe, tail, head)
    if call.is_json:
        return _joined(probe, _Frame(head, call.after_name, closing), gaps)
    found = find_tags(probe, call.after_name, closing, tail)
    if found is None:
        return None
    frame = _Frame(head, found.after_tool_name, closing.removeprefix(found.after_value))
    return _joined(probe, frame, gaps.behind(found.after_value), found.tags)


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a call stands in a text."""

    name: int
    after_name: str
    """Up to the JSON object, or to the first argument's value."""
    end: int
    """The end of the JSON object, or of the last argument's value."""
    is_json: bool


def _find(text: str, index: int, start: int = 0) -> _Call | None:
    """The call of one of the tools, with `ARGUMENTS`."""
    name = text.find(NAMES[index], start)
    rest = name + len(NAMES[index])
    first, last = text.find(TEXTS[0], rest), text.find(TEXTS[1], rest)
    if name < 0 or not rest <= first < last:
        return None
    for brace in re.finditer(r"\{", text[rest:first]):
        at = rest + brace.start()
        if (end := _object_end(text, at)) is not None:
            return _Call(name, text[rest:at], end, is_json=True)
    return _Call(name, text[rest:first], last + len(TEXTS[1]), is_json=False)


def _object_end(text: str, start: int) -> int | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return end if value == ARGUMENTS else None


def _head(probe: Probe, before_name: str) -> str:
    """The text of a call before its name, without what comes before every answer."""
    others = (probe.words() or "", probe.beginning() or "")
    begun = max((shared_beginning(before_name, other) for other in others), key=len)
    head = before_name[len(begun) :]
    _, words, behind = (probe.calls([ARGUMENTS], words=WORDS) or "").partition(WORDS)
    behind, name, _ = behind.partition(NAMES[0])
    if words and name:
        head = shared_end(head, behind) or behind
    return head.lstrip("\n")


def _before_end(probe: Probe, tail: str, head: str) -> str:
    """What closes a call in a template that shows only one: everything before what ends each turn."""
    end = first_piece((probe.words() or "").partition(WORDS)[2])
    if end and end in tail:
        return tail[: tail.index(end)]
    return "}" if "{" in head and tail.startswith("}") else ""


@dataclass(frozen=True, slots=True)
class _Gaps:
    """What stands between the arguments of a call and the name of the next one; empty if there is none."""

    first: str = ""
    second: str = ""
    after_names: tuple[str, str] = ("", "")
    """What follows the names of the first two calls."""

    def behind(self, text: str) -> _Gaps:
        """The same without a text at the beginning."""
        return _Gaps(self.first[len(text) :], self.second[len(text) :], self.after_names)


def _find_gaps(probe: Probe) -> _Gaps:
    text = probe.calls([ARGUMENTS] * 3) or ""
    calls: list[_Call] = []
    for index in range(3):
        call = _find(text, index, calls[-1].end if calls else 0)
        if call is None:
            return _Gaps()
        calls.append(call)
    one, two, three = calls
    return _Gaps(text[one.end : two.name], text[two.end : three.name], (one.after_name, two.after_name))


@dataclass(frozen=True, slots=True)
class _Frame:
    """The texts around the first call as they were found."""

    head: str
    after_name: str
    closing: str


def _joined(probe: Probe, frame: _Frame, gaps: _Gaps, tags: ArgumentTags | None = None) -> ToolFormat:
    one, two = gaps.after_names
    after_name, first_index = _numbered(
        _with_places(one, 0), _with_places(two, 1), _with_places(frame.after_name, 0)
    )
    head, closing = _with_places(frame.head, 0), frame.closing.rstrip()
    gaps = gaps.behind(closing)
    next_head, number = _numbered(_with_places(gaps.first, 1), _with_places(gaps.second, 2))
    if number is not None:
        first_index = number - 1
        behind = next_head.partition("{index}")[2]
        head = f"{head.removesuffix(f'{first_index}{behind}')}{{index}}{behind}"
    is_brace = head.startswith("{")
    trigger = _PYTHON_TAG if is_brace and "parameters" in after_name else _trigger(probe, head)
    return ToolFormat(
        triggers=(trigger,) if trigger else (),
        begins_with_brace=is_brace,
        head=head,
        after_name=after_name if tags is not None else after_name.rstrip(" "),
        tags=tags,
        after_arguments=_with_places(closing, 0),
        again=_again(next_head),
        next_head=next_head,
        first_index=first_index or 0,
        id_style=_id_style(probe, head, after_name),
    )


def _trigger(probe: Probe, head: str) -> str:
    """The beginning of a call, up to where no answer of words has the same."""
    spoken = probe.words(THOUGHT) or ""
    spoken = spoken[len(shared_beginning(spoken, probe.beginning() or "")) :]
    begin = head.index(first_piece(head))
    end = begin
    while piece := first_piece(head[end:]):
        end = head.index(piece, end) + len(piece)
        if head[begin:end] not in spoken:
            return "" if head[begin] == "{" else head[begin:end]
    return ""


def _with_places(text: str, index: int) -> str:
    """A text with places for the id and the name of the call with this number."""
    return text.replace(IDS[index], "{id}").replace(NAMES[index], "{name}")


def _numbered(one: str, two: str, part: str | None = None) -> tuple[str, int | None]:
    """A text with a place for the number in which alone it differs from the next call's; and the number.

    Of the text, only the `part` with which it begins is given.
    """
    part = one if part is None else part
    for digits in _DIGITS.finditer(one):
        following = str(int(digits[0]) + 1)
        if one[: digits.start()] + following + one[digits.end() :] == two and digits.end() <= len(part):
            return f"{part[: digits.start()]}{{index}}{part[digits.end() :]}", int(digits[0])
    return part, None


def _again(next_head: str) -> str | None:
    text = next_head.strip()
    return text[0] if text.startswith((",", "{", ";")) else first_piece(text) or None


def _id_style(probe: Probe, head: str, after_name: str) -> IdStyle:
    if head.endswith("functions.") and after_name.startswith(":{index}"):
        return "function"
    is_mistral = head.startswith("[TOOL_CALLS]")
    return "short" if is_mistral or probe.calls([ARGUMENTS], ids=[LONG_ID]) is None else "openai"
