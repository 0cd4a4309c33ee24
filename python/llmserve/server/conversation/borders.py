"""Where texts of a template part: never inside of a tag."""

from __future__ import annotations

import re

_TAG = re.compile(r"<[^<>\n]*>|\[/?[A-Z_]+\]|\u25c1[^\u25c1\u25b7\n]*\u25b7")
_RUN = re.compile(r"[^\s{]+")


def shared_beginning(one: str, other: str) -> str:
    """What both begin with, up to the last border of a tag in either of them."""
    length = _num_shared(one, other)
    for _ in range(2):
        for text in (one, other):
            length = _border(text, length)
    return one[:length]


def shared_end(one: str, other: str) -> str:
    """What both end with, from the first border of a tag in the first of them."""
    start = len(one) - _num_shared(one[::-1], other[::-1])
    for tag in _TAG.finditer(one):
        if tag.start() < start < tag.end():
            return one[tag.end() :]
    return one[start:]


def _num_shared(one: str, other: str) -> int:
    """How many characters at the beginning are the same."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _border(text: str, place: int) -> int:
    inside = (tag.start() for tag in _TAG.finditer(text) if tag.start() < place < tag.end())
    return next(inside, place)


def is_tag(text: str) -> bool:
    """Whether a text is one tag."""
    return _TAG.fullmatch(text) is not None


def first_piece(text: str) -> str:
    """The tag at the beginning of a text, or what comes before the first blank or brace behind any blanks."""
    text = text.lstrip("\n")
    if tag := _TAG.match(text.lstrip()):
        return tag[0]
    run = _RUN.search(text)
    return text[: run.end()] if run else ""


def last_tag(text: str) -> str:
    """The tag at the end of a text with the words that belong to it, without blanks around it."""
    text = text.strip()
    tags = list(_TAG.finditer(text))
    if not tags:
        return text if text and not any(map(str.isspace, text)) else ""
    rest = text[tags[-1].end() :]
    return tags[-1][0] + rest if not any(map(str.isspace, rest)) else ""
