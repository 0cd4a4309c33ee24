"""The nodes that rules consist of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

Ranges: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set: ranges of code points, in order, apart from each other, without surrogates."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Text:
    """Several literal characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Ref:
    """Another rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after the other; without items, the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item ``low`` to ``high`` times; ``None``: any number of times."""

    item: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Lexeme:
    """What the lexer reads as a whole; it holds no other and no rule that recurs."""

    node: Node


Node: TypeAlias = "Chars | Text | Ref | Sequence | Choice | Repeat | Lexeme"

Grammar: TypeAlias = Mapping[str, Node]
"""Rules by their names."""

ROOT = "root"
EMPTY = Sequence(())


def sequence(items: Iterable[Node]) -> Node:
    """A sequence; a single item is itself, and empty items are left out."""
    parts = tuple(item for item in items if item != EMPTY)
    return parts[0] if len(parts) == 1 else Sequence(parts)


def choice(options: Iterable[Node]) -> Node:
    """A choice; a single option is itself, equal ones are merged, and sets of characters become one set."""
    ranges: list[tuple[int, int]] = []
    parts: dict[Node, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Choice) else (option,):
            if isinstance(part, Chars):
                ranges += part.ranges
            else:
                parts[part] = None
    found = (*([char_set(ranges, is_negated=False)] if ranges else []), *parts)
    return found[0] if len(found) == 1 else Choice(found)


def repeat(item: Node, low: int, high: int | None) -> Node:
    """A repetition; exactly once is the item itself."""
    if item == EMPTY or high == 0:
        return EMPTY
    return item if (low, high) == (1, 1) else Repeat(item, low, high)


def characters(text: str) -> Node:
    """A text; a single character is a set."""
    if not text:
        return EMPTY
    return Chars(((ord(text), ord(text)),)) if len(text) == 1 else Text(text)


def char_set(ranges: Iterable[tuple[int, int]], *, is_negated: bool) -> Chars:
    """The characters in the ranges, or all others."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    if is_negated:
        merged = list(_between([*merged, _SURROGATES]))
    return Chars(tuple(merged))


def _between(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    for low, high in sorted(ranges):
        if start < low:
            yield start, low - 1
        start = max(start, high + 1)
    if start <= MAX_CODE_POINT:
        yield start, MAX_CODE_POINT


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside a node."""
    match node:
        case Sequence(items=inner) | Choice(options=inner):
            return inner
        case Repeat(item=item) | Lexeme(node=item):
            return (item,)
        case Chars() | Text() | Ref():
            return ()


def references(node: Node) -> Iterator[str]:
    """The names of the rules in a node."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if isinstance(at, Ref):
            yield at.name
        waiting.extend(children(at))
