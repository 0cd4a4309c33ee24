"""In which order rules use each other, and which use themselves."""

from __future__ import annotations

from collections.abc import Iterator

from llmserve.server.grammars.nodes import ROOT, Grammar, references

__all__ = ["bottom_up", "recurring_rules"]


def bottom_up(grammar: Grammar) -> list[str]:
    """The rules that the root uses; as far as possible, each comes after those that it uses."""
    order: list[str] = []
    seen = {ROOT}
    stack: list[tuple[str, Iterator[str]]] = [(ROOT, references(grammar[ROOT]))]
    while stack:
        name, used = stack[-1]
        new = next((other for other in used if other not in seen), None)
        if new is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(new)
            stack.append((new, references(grammar[new])))
    return order


def recurring_rules(grammar: Grammar, order: list[str]) -> frozenset[str]:
    """The rules of the order that use themselves, or use one that does."""
    users: dict[str, set[str]] = {name: set() for name in order}
    num_used: dict[str, int] = {}
    for name in order:
        used = set(references(grammar[name]))
        num_used[name] = len(used)
        for other in used:
            users[other].add(name)
    # Removes rules that use none of those that are left; the rest recurs.
    done = [name for name in order if num_used[name] == 0]
    for name in done:
        for user in users[name]:
            num_used[user] -= 1
            if num_used[user] == 0:
                done.append(user)
    return frozenset(order) - frozenset(done)
