"""What may follow each lexeme (the FOLLOW sets of parser construction)."""

from __future__ import annotations

from llmserve.server.grammars.facts import FactTable
from llmserve.server.grammars.nodes import (
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
)

__all__ = ["follow_sets"]


def follow_sets(rules: Grammar, facts: FactTable) -> dict[Node, int]:
    """For each lexeme of the rules, by its node, the bytes with which the text may go on behind it."""
    return _Follow(rules, facts).lexemes


class _Follow:
    def __init__(self, rules: Grammar, facts: FactTable) -> None:
        self.lexemes: dict[Node, int] = {}
        self._facts = facts
        self._rules: dict[str, int] = dict.fromkeys(rules, 0)
        waiting = [ROOT, *rules]
        self._changed: set[str] = set()
        while waiting:
            name = waiting.pop()
            self._changed.discard(name)
            self._visit(rules[name], self._rules[name])
            waiting.extend(self._changed)
            self._changed = set()

    def _visit(self, node: Node, follow: int) -> None:
        match node:
            case Lexeme(node=lexeme):
                self.lexemes[lexeme] = self.lexemes.get(lexeme, 0) | follow
            case Ref(name=name):
                if self._rules[name] | follow != self._rules[name]:
                    self._rules[name] |= follow
                    self._changed.add(name)
            case Sequence(items=items):
                for item in reversed(items):
                    self._visit(item, follow)
                    facts = self._facts.of(item)
                    follow = facts.first | (follow if facts.is_nullable else 0)
            case Choice(options=options):
                for option in options:
                    self._visit(option, follow)
            case Repeat(item=item, high=high):
                self._visit(item, follow | (0 if high == 1 else self._facts.of(item).first))
            case Chars() | Text():
                raise TypeError("the rules have been cut into lexemes")
