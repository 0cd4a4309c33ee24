"""Removes parts of a grammar that no text needs, and that would be dead ends or empty rounds."""

from __future__ import annotations

from llmserve.server.grammars.facts import FactTable
from llmserve.server.grammars.nodes import (
    EMPTY,
    ROOT,
    Chars,
    Choice,
    Grammar,
    Node,
    Ref,
    Repeat,
    Sequence,
    choice,
    references,
    repeat,
    sequence,
)
from llmserve.server.grammars.order import bottom_up, recurring_rules

__all__ = ["simplified"]


def simplified(grammar: Grammar) -> Grammar | None:
    """The same grammar without options that never end and without repetitions of nothing.

    `None`: the root has no text that ends.
    """
    ending = _rules_that_end(grammar)
    if ROOT not in ending:
        return None
    ended = {name: _ended(body, ending) for name, body in grammar.items() if name in ending}
    rules = {name: body for name, body in ended.items() if body is not None}
    order = bottom_up(rules)
    used = {name: rules[name] for name in order}
    facts = FactTable(used, recurring_rules(rules, order))
    simple: dict[str, Node] = {}
    for name, body in used.items():
        simple[name] = _simple(body, facts, simple)
    return simple


def _rules_that_end(grammar: Grammar) -> set[str]:
    """The rules with a text: a rule has one if one of its options consists of rules that have one."""
    ending: set[str] = set()
    users: dict[str, list[str]] = {}
    for name, body in grammar.items():
        for used in set(references(body)):
            users.setdefault(used, []).append(name)
    waiting = list(grammar)
    while waiting:
        name = waiting.pop()
        if name not in ending and _ended(grammar[name], ending) is not None:
            ending.add(name)
            waiting.extend(users.get(name, ()))
    return ending


def _ended(node: Node, ending: set[str]) -> Node | None:
    """A node without options that have no text; `None` if the node has no text itself."""
    match node:
        case Ref(name=name):
            return node if name in ending else None
        case Sequence(items=items):
            parts = [part for item in items if (part := _ended(item, ending)) is not None]
            return sequence(parts) if len(parts) == len(items) else None
        case Choice(options=options):
            parts = [part for option in options if (part := _ended(option, ending)) is not None]
            return choice(parts) if parts else None
        case Repeat(item=item, low=low, high=high):
            part = _ended(item, ending)
            if part is None:
                return EMPTY if low == 0 else None
            return repeat(part, low, high)
        case _:
            return node


def _simple(node: Node, facts: FactTable, done: Grammar) -> Node:
    """A node without empty parts; rules of one character are replaced by it."""
    known = facts.of(node)
    if known.is_nullable and known.first == 0:
        return EMPTY
    match node:
        case Ref(name=name):
            body = done.get(name, node)
            return body if isinstance(body, Chars) else node
        case Sequence(items=items):
            return sequence(_simple(item, facts, done) for item in items)
        case Choice(options=options):
            return choice(_simple(option, facts, done) for option in options)
        case Repeat(item=item, low=low, high=high):
            return repeat(_simple(item, facts, done), low, high)
        case _:
            return node
