"""The format of a model's calls, read off what its template makes of conversations with calls."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from llmserve.server.conversation.borders import first_piece, shared_beginning, shared_end
from llmserve.server.conversation.call_probes import ARGUMENTS, IDS, LONG_ID, NAMES, TEXTS, THOUGHT, WORDS, Probe
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
    if name < 0:
        return None
    rest = name + len(NAMES[index])
    first, last = text.find(TEXTS[0], rest), text.find(TEXTS[1], rest)
    if not rest <= first < last:
        return None
    for brace in re.finditer(r"\{", text[rest:first]):
        at = rest + brace.start()
        if (end := _object_end(text, at)) is not None:
            return _Call(name, text[rest:at], end, is_json=True)
    return _Call(name, text[rest:first], last + len(TEXTS[1]), is_json=False)


def _object_end(text: str, start: int) -> int | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None
    return end if value == ARGUMENTS else None


def _derived(probe: Probe) -> ToolFormat | None:
    one = probe.calls([ARGUMENTS])
    call = _find(one, 0) if one is not None else None
    if one is None or call is None:
        return None
    head = _head(probe, one[: call.name])
    tail = one[call.end :]
    gaps = _Gaps.of(probe)
    closing = shared_beginning(tail, gaps.first) if gaps.first else _before_end(probe, tail, head)
    tags = None if call.is_json else find_tags(probe, call.after_name, closing, tail)
    after_name = _with_places(call.after_name, 0)
    if tags is not None:
        after_name, closing = _with_places(tags.after_tool_name, 0), closing[len(tags.after_value) :]
    elif not call.is_json:
        return None
    closing = closing.rstrip()
    one_name, two_name = gaps.after_names
    after_name, index = _numbered(_with_places(one_name, 0), _with_places(two_name, 1), after_name)
    frame = _Frame(head, after_name, closing, gaps.without(closing, tags and tags.after_value))
    return _joined(probe, frame, tags.tags if tags is not None else None, index)


def _head(probe: Probe, before_name: str) -> str:
    """The text of a call before its name, without what comes before every answer."""
    others = (probe.words(), probe.beginning())
    begun = max((shared_beginning(before_name, other) for other in others if other is not None), key=len)
    head = before_name[len(begun) :]
    spoken = probe.calls([ARGUMENTS], words=WORDS)
    _, words, behind = (spoken or "").partition(WORDS)
    behind, name, _ = behind.partition(NAMES[0])
    if words and name:
        head = shared_end(head, behind) or behind
    return head.lstrip("\n")


@dataclass(frozen=True, slots=True)
class _Gaps:
    """What stands between the arguments of a call and the name of the next one; empty if there is none."""

    first: str = ""
    second: str = ""
    after_names: tuple[str, str] = ("", "")

    @staticmethod
    def of(probe: Probe) -> _Gaps:
        text = probe.calls([ARGUMENTS] * 3)
        if text is None:
            return _Gaps()
        found: list[_Call] = []
        for index in range(3):
            call = _find(text, index, found[-1].end if found else 0)
            if call is None:
                return _Gaps()
            found.append(call)
        one, two, three = found
        return _Gaps(
            text[one.end : two.name], text[two.end : three.name], (one.after_name, two.after_name)
        )

    def without(self, closing: str, after_value: str | None) -> _Gaps:
        """What begins the next call."""
        length = len(after_value or "") + len(closing)
        return _Gaps(self.first[length:], self.second[length:], self.after_names)


def _before_end(probe: Probe, tail: str, head: str) -> str:
    """What closes a call in a template that shows only one: everything before what ends each turn."""
    words = probe.words() or ""
    end = first_piece(words.partition(WORDS)[2])
    if end and end in tail:
        return tail[: tail.index(end)]
    return "}" if "{" in head and tail.startswith("}") else ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The texts around calls as they were found."""

    head: str
    after_name: str
    closing: str
    gaps: _Gaps


def _joined(probe: Probe, frame: _Frame, tags: ArgumentTags | None, first_index: int | None) -> ToolFormat:
    head = _with_places(frame.head, 0)
    next_head, number = _numbered(_with_places(frame.gaps.first, 1), _with_places(frame.gaps.second, 2))
    if number is not None:
        first_index = number - 1
        before, _, behind = next_head.partition("{index}")
        head = head.removesuffix(f"{first_index}{behind}") + f"{{index}}{behind}"
    is_brace = head.lstrip().startswith("{")
    trigger = _PYTHON_TAG if is_brace and "parameters" in frame.after_name else _trigger(probe, head)
    return ToolFormat(
        triggers=(trigger,) if trigger else (),
        begins_with_brace=is_brace,
        head=head,
        after_name=frame.after_name if tags is not None else frame.after_name.rstrip(" "),
        tags=tags,
        after_arguments=_with_places(frame.closing, 0),
        again=_again(next_head),
        next_head=next_head,
        first_index=first_index or 0,
        id_style=_id_style(probe, head, frame.after_name),
    )


def _trigger(probe: Probe, head: str) -> str:
    """The beginning of a call in which no answer of words begins or ends."""
    spoken = probe.words(THOUGHT) or ""
    piece = first_piece(head)
    while piece and piece in spoken and (more := first_piece(head[head.index(piece) + len(piece) :])):
        piece = head[: head.index(more, head.index(piece) + len(piece)) + len(more)].lstrip()
    return "" if piece.startswith("{") else piece


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
