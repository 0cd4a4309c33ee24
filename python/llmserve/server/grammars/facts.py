"""What is known of a node as a language, as far as finding the ends of lexemes needs it.

All sets are of bytes, as in `lead_bytes`, and may be too large, never too small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmserve.server.grammars.lead_bytes import lead_byte, lead_bytes
from llmserve.server.grammars.nodes import Chars, Choice, Grammar, Lexeme, Node, Ref, Repeat, Sequence, Text

__all__ = ["FactTable", "Facts"]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one node."""

    is_nullable: bool
    """Whether the empty text belongs to it."""
    first: int
    """The bytes that its texts begin with."""
    after: int
    """The bytes that may follow one of its texts in a longer one."""
    inner: int
    """The bytes of its texts after the first."""
    size: int
    """How many characters it is written with, roughly and up to a bound."""
    recurs: bool = False
    """Whether it uses a rule that uses itself; then `after`, `inner` and `size` are unknown."""


NOTHING = Facts(is_nullable=True, first=0, after=0, inner=0, size=0)

_MAX_SIZE = 1 << 20


class FactTable:
    """The facts of a grammar's rules, and of nodes that use them."""

    def __init__(self, grammar: Grammar, recurring: frozenset[str]) -> None:
        self._known: dict[Node, Facts] = {}
        self._rules = {name: Facts(False, 0, 0, 0, 0, recurs=name in recurring) for name in grammar}
        self._settle(grammar)

    def of(self, node: Node) -> Facts:
        """The facts of a node."""
        if (facts := self._known.get(node)) is None:
            facts = self._known[node] = self._compute(node)
        return facts

    def _settle(self, grammar: Grammar) -> None:
        """Goes over the rules until nothing changes: what a rule begins with may come from itself."""
        is_settled = False
        while not is_settled:
            is_settled = True
            for name, body in grammar.items():
                facts, former = self._compute(body), self._rules[name]
                if former.recurs:
                    facts = Facts(facts.is_nullable, facts.first, 0, 0, 0, recurs=True)
                if facts != former:
                    self._rules[name] = facts
                    is_settled = False

    def _compute(self, node: Node) -> Facts:
        match node:
            case Chars(ranges=ranges):
                return Facts(is_nullable=False, first=lead_bytes(ranges), after=0, inner=0, size=1)
            case Text(text=text):
                inner = _union(lead_byte(char) for char in text[1:])
                return Facts(False, first=lead_byte(text[0]), after=0, inner=inner, size=len(text))
            case Ref(name=name):
                return self._rules[name]
            case Lexeme(node=inner_node):
                return self._compute(inner_node)
            case Sequence(items=items):
                facts = NOTHING
                for item in items:
                    facts = _joined(facts, self._compute(item))
                return facts
            case Choice(options=options):
                facts = self._compute(options[0])
                for option in options[1:]:
                    facts = _either(facts, self._compute(option))
                return facts
            case Repeat(item=item, low=low, high=high):
                return _repeated(self._compute(item), low, high)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _joined(left: Facts, right: Facts) -> Facts:
    first = left.first | (right.first if left.is_nullable else 0)
    inner = left.inner | right.first | right.inner
    after = right.after | ((left.after | right.first) if right.is_nullable else 0)
    # Where a byte may belong to either side, there are two ways to read a text, and the end of one may be
    # in the middle of the other.
    if left.after & right.first or (left.is_nullable and left.first & right.first):
        after = inner
    is_nullable = left.is_nullable and right.is_nullable
    return Facts(is_nullable, first, after, inner, _size(left, right), left.recurs or right.recurs)


def _either(left: Facts, right: Facts) -> Facts:
    inner = left.inner | right.inner
    after = inner if left.first & right.first else left.after | right.after
    return Facts(
        left.is_nullable or right.is_nullable,
        left.first | right.first,
        after,
        inner,
        _size(left, right),
        left.recurs or right.recurs,
    )


def _repeated(item: Facts, low: int, high: int | None) -> Facts:
    is_nullable = low == 0 or item.is_nullable
    if high == 1:
        return Facts(is_nullable, item.first, item.after, item.inner, item.size, item.recurs)
    inner = item.inner | item.first
    after = item.after if low == high and not item.is_nullable else item.after | item.first
    if item.after & item.first:
        after = inner
    return Facts(is_nullable, item.first, after, inner, item.size, item.recurs)


def _size(left: Facts, right: Facts) -> int:
    return min(left.size + right.size, _MAX_SIZE)
