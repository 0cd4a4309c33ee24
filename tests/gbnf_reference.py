"""A slow and plain reading of GBNF rules, to judge outputs by."""

from __future__ import annotations

from llmserve.server.grammars.gbnf import read_gbnf
from llmserve.server.grammars.nodes import Chars, Choice, Grammar, Lexeme, Node, Ref, Repeat, Sequence, Text


def matches(gbnf: str, text: str) -> bool:
    """Whether the text as a whole is one of the grammar."""
    return len(text) in _Reading(read_gbnf(gbnf), text).ends_of_rule("root", 0)


class _Reading:
    """All ends of all rules at all places of one text. What a rule finds through itself grows until it is
    settled.
    """

    def __init__(self, grammar: Grammar, text: str) -> None:
        self._grammar = grammar
        self._text = text
        self._found: dict[tuple[str, int], set[int]] = {}

    def ends_of_rule(self, name: str, start: int) -> set[int]:
        while True:
            before = sum(len(ends) for ends in self._found.values())
            self._visited: set[tuple[str, int]] = set()
            ends = self._ends(Ref(name), start)
            if sum(len(ends) for ends in self._found.values()) == before:
                return ends

    def _ends(self, node: Node, start: int) -> set[int]:
        match node:
            case Chars(ranges=ranges):
                char = self._text[start : start + 1]
                return {start + 1} if char and any(a <= ord(char) <= b for a, b in ranges) else set()
            case Text(text=text):
                return {start + len(text)} if self._text.startswith(text, start) else set()
            case Ref(name=name):
                return self._ends_of_ref(name, start)
            case Sequence(items=items):
                ends = {start}
                for item in items:
                    ends = self._step(item, ends)
                return ends
            case Choice(options=options):
                return {end for option in options for end in self._ends(option, start)}
            case Repeat():
                return self._ends_of_repeat(node, start)
            case Lexeme():
                raise TypeError("not a rule as it was read")

    def _step(self, node: Node, starts: set[int]) -> set[int]:
        return {end for start in starts for end in self._ends(node, start)}

    def _ends_of_ref(self, name: str, start: int) -> set[int]:
        known = self._found.setdefault((name, start), set())
        if (name, start) not in self._visited:
            self._visited.add((name, start))
            known |= self._ends(self._grammar[name], start)
        return set(known)

    def _ends_of_repeat(self, node: Repeat, start: int) -> set[int]:
        ends = {start}
        for _ in range(node.low):
            ends = self._step(node.item, ends)
        found, rounds = set(ends), node.low
        while ends and (node.high is None or rounds < node.high):
            ends = self._step(node.item, ends) - found
            found |= ends
            rounds += 1
        return found
