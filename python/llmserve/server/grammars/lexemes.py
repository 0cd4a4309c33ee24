"""Decides which parts of a grammar become lexemes, which the lexer reads as a whole.

llguidance's lexer reads on as long as some lexeme that may stand here could still go on. A grammar in GBNF
has no lexer: every way to read a text counts. Lexemes of one character each are always right, but slow, since
each character is then a step of the parser. So the largest parts without recursion are tried, and those that
could be read too far are split:

- a lexeme that could go on with a byte that may also follow it;
- a lexeme that begins like another and holds bytes that may follow that other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from llmserve.server.grammars.facts import FactTable
from llmserve.server.grammars.follow import follow_sets
from llmserve.server.grammars.lead_bytes import ALL_BYTES, within
from llmserve.server.grammars.nodes import (
    EMPTY,
    ROOT,
    Chars,
    Choice,
    Grammar,
    Lexeme,
    Node,
    Ref,
    Repeat,
    Sequence,
    Text,
    char_set,
    characters,
    choice,
    repeat,
    sequence,
)
from llmserve.server.grammars.order import bottom_up, recurring_rules

__all__ = ["cut_lexemes"]

MAX_ROUNDS = 16
MAX_LEXEMES = 400
"""Beyond these, all lexemes are single characters."""


def cut_lexemes(grammar: Grammar) -> Grammar:
    """The rules that the parser needs, from the root on; their leaves are lexemes, references or empty."""
    order = bottom_up(grammar)
    facts = FactTable({name: grammar[name] for name in order}, recurring_rules(grammar, order))
    split: dict[Node, int] = {}
    for _ in range(MAX_ROUNDS):
        rules = _Cut(grammar, facts, split).rules()
        follows = follow_sets(rules, facts)
        if len(follows) > MAX_LEXEMES:
            break
        if not (wrong := _read_too_far(follows, facts)):
            return rules
        for node, follow in wrong.items():
            split[node] = split.get(node, 0) | follow
    return _Cut(grammar, facts, split, only_characters=True).rules()


def _read_too_far(follows: dict[Node, int], facts: FactTable) -> dict[Node, int]:
    """The lexemes to split, with the bytes that they must not swallow.

    Of two that are mistaken for each other, the larger is split.
    """
    own = {node: facts.of(node) for node in follows}
    wrong = {node: follow for node, follow in follows.items() if own[node].after & follow}
    long = [node for node in follows if not isinstance(node, Chars)]
    for node, follow in follows.items():
        for other in long:
            if node in wrong or other in wrong or other == node:
                continue
            if own[other].inner & follow and own[other].first & own[node].first:
                if isinstance(node, Chars) or own[node].size <= own[other].size:
                    wrong[other] = follow
                else:
                    wrong[node] = ALL_BYTES
    return wrong


@dataclass(slots=True)
class _Cut:
    grammar: Grammar
    facts: FactTable
    split: dict[Node, int]
    only_characters: bool = False
    needed: list[str] = field(default_factory=lambda: [ROOT])

    def rules(self) -> Grammar:
        rules: dict[str, Node] = {}
        while self.needed:
            name = self.needed.pop()
            if name not in rules:
                rules[name] = self.cut(self.grammar[name])
        return rules

    def cut(self, node: Node) -> Node:
        if node == EMPTY or isinstance(node, Chars) or self._is_lexeme(node):
            return node if node == EMPTY else Lexeme(node)
        match node:
            case Text(text=text):
                return sequence(Lexeme(characters(char)) for char in text)
            case Ref(name=name):
                self.needed.append(name)
                return node
            case Sequence(items=items):
                return sequence(self._cut_items(items))
            case Choice(options=options):
                return choice(self.cut(option) for option in options)
            case Repeat(item=item, low=low, high=high):
                return self._cut_repeat(item, low, high)
            case Lexeme():
                return node

    def _is_lexeme(self, node: Node) -> bool:
        facts = self.facts.of(node)
        return not (self.only_characters or facts.recurs or facts.is_nullable or node in self.split)

    def _cut_items(self, items: tuple[Node, ...]) -> Iterator[Node]:
        """Runs of items without recursion are tried as one lexeme each, then without their last item."""
        run: list[Node] = []
        for item in items:
            if self.facts.of(item).recurs:
                yield from self._cut_run(tuple(run))
                run = []
                yield self.cut(item)
            else:
                run.append(item)
        yield from self._cut_run(tuple(run))

    def _cut_run(self, run: tuple[Node, ...]) -> Iterator[Node]:
        end = len(run)
        while end > 1 and not self._is_lexeme(sequence(run[:end])):
            end -= 1
        if end > 1:
            yield Lexeme(sequence(run[:end]))
        elif run:
            yield self.cut(run[0])
        if end < len(run):
            yield from self._cut_run(run[max(end, 1) :])

    def _cut_repeat(self, item: Node, low: int, high: int | None) -> Node:
        # An optional run becomes an optional lexeme: a lexeme must not be empty.
        present = Repeat(item, 1, high)
        if low == 0 and high != 1 and self._is_lexeme(present):
            return Repeat(Lexeme(present), 0, 1)
        if isinstance(item, Chars) and low <= 1 and high is None and not self.only_characters:
            return self._cut_run_of_characters(item, low, self.split[present])
        return Repeat(self.cut(item), low, high)

    def _cut_run_of_characters(self, item: Chars, low: int, follow: int) -> Node:
        """Characters that may follow the run are lexemes of their own, and so are the parts between them."""
        single = char_set(within(item.ranges, follow), is_negated=False)
        others = char_set(within(item.ranges, ~follow), is_negated=False)
        if not others.ranges:
            return Repeat(Lexeme(item), low, None)
        between = self.cut(Repeat(others, 1, None))
        if not single.ranges:
            return repeat(between, low, 1)
        steps = Sequence((Lexeme(single), Repeat(between, 0, 1)))
        if low == 0:
            return Sequence((Repeat(between, 0, 1), Repeat(steps, 0, None)))
        return Choice((Sequence((between, Repeat(steps, 0, None))), Repeat(steps, 1, None)))
