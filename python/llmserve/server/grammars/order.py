"""In which order rules use each other, and which use themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

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
    sorter = TopologicalSorter({name: set(references(grammar[name])) for name in order})
    # It gives what it can order, cycles or not.
    with suppress(CycleError):
        sorter.prepare()
    done: set[str] = set()
    while ready := sorter.get_ready():
        done.update(ready)
        sorter.done(*ready)
    return frozenset(order) - done
