"""Writes rules that recur at one end only as repetitions, so that the lexer can read them.

`digits ::= [0-9] | [0-9] digits` is `digits ::= [0-9]* [0-9]` (Arden's rule), and likewise at the other end.
"""

from __future__ import annotations

from llmserve.server.grammars.nodes import (
    EMPTY,
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

__all__ = ["without_linear_recursion"]


def without_linear_recursion(grammar: Grammar) -> Grammar:
    """The same grammar with fewer rules that recur."""
    return {
        name: _unrolled(name, body) if name in references(body) else body for name, body in grammar.items()
    }


def _unrolled(name: str, body: Node) -> Node:
    options = [_items(option) for option in _options(body)]
    for is_right in (True, False):
        recurring = [items for items in options if items and items[-1 if is_right else 0] == Ref(name)]
        steps = [sequence(items[:-1] if is_right else items[1:]) for items in recurring]
        ends = [sequence(items) for items in options if items not in recurring]
        if recurring and ends and not any(name in references(part) for part in (*steps, *ends)):
            rounds = repeat(choice(steps), 0, None)
            return sequence((rounds, choice(ends)) if is_right else (choice(ends), rounds))
    return body


def _options(body: Node) -> tuple[Node, ...]:
    if isinstance(body, Choice):
        return tuple(option for inner in body.options for option in _options(inner))
    if isinstance(body, Repeat) and (body.low, body.high) == (0, 1):
        return (*_options(body.item), EMPTY)
    return (body,)


def _items(option: Node) -> tuple[Node, ...]:
    return option.items if isinstance(option, Sequence) else (option,)
