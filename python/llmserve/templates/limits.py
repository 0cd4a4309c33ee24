"""How much a template may compute: it comes with a model file, which may be anybody's.

Jinja's sandbox keeps a template from everything but its inputs. What these limits add is that it ends, and
that it takes no more memory than a bounded number of bounded values.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jinja2
import jinja2.utils

__all__ = ["CONTAINERS", "budget", "check_number", "limited", "weight", "within_limits"]

# A conversation that fills a context of a million tokens has about four million characters.
MAX_CHARACTERS = 16_000_000
"""Characters in one value: a text, or all texts in a list."""
MAX_TOTAL_CHARACTERS = 256_000_000
"""Characters in all values that a render makes, most of which are freed at once."""
MAX_ITEMS = 1_000_000
"""Items in one value: the lists, mappings, texts and numbers in it; what it contains twice counts twice."""
# The longest public templates have about 2,400 tokens and 1,300 nodes. Python compiles what Jinja makes of
# them in one go, in which no other thread runs.
MAX_TOKENS = 10_000
"""Tokens of a template's source, without white space and comments."""
MAX_NODES = 5_000
"""Nodes of a template's syntax tree."""
MAX_STEPS = 2_000_000
"""Rounds of loops, calls and comparisons."""
MAX_CPU_S = 5.0
"""Seconds of CPU time of this thread."""
MAX_BITS = 4096
"""Bits of an integer."""

_STEPS_BETWEEN_LOOKS = 64
_WORK_BETWEEN_LOOKS = 100_000
_WORK_OF_A_CALL = 1000

# The caller's data has no other kinds (see `environment`).
CONTAINERS = (list, tuple, dict, jinja2.utils.Namespace)


class Budget:
    """What is left of the limits of one render."""

    __slots__ = ("_characters", "_end", "_steps", "_work")

    def __init__(self) -> None:
        self._characters = MAX_TOTAL_CHARACTERS
        self._steps = MAX_STEPS
        self._work = 0
        self._end = time.thread_time() + MAX_CPU_S

    def step(self) -> None:
        """Counts a round of a loop, or the like."""
        self._steps -= 1
        if self._steps < 0:
            raise limited(f"takes more than {MAX_STEPS} steps")
        if not self._steps % _STEPS_BETWEEN_LOOKS:
            self._check_time()

    def spend(self, num_characters: int) -> None:
        """Counts a new value, before it is made where it may be large."""
        self.check_size(num_characters)
        self._characters -= num_characters
        if self._characters < 0:
            raise limited(f"makes more than {MAX_TOTAL_CHARACTERS} characters")

    def check_size(self, num_characters: int) -> None:
        """Looks at a value that is being made."""
        if num_characters > MAX_CHARACTERS:
            raise limited(f"makes a value of more than {MAX_CHARACTERS} characters")
        # Asking for the time is a system call.
        self._work += num_characters + _WORK_OF_A_CALL
        if self._work > _WORK_BETWEEN_LOOKS:
            self._work = 0
            self._check_time()

    def _check_time(self) -> None:
        if time.thread_time() > self._end:
            raise limited(f"takes longer than {MAX_CPU_S:.0f} seconds")


_current: ContextVar[Budget] = ContextVar("llmserve_template_budget")


@contextmanager
def within_limits() -> Iterator[None]:
    """Gives a budget to what is compiled and rendered within; the outermost counts."""
    if _current.get(None) is not None:
        yield
        return
    token = _current.set(Budget())
    try:
        yield
    finally:
        _current.reset(token)


def budget() -> Budget:
    """The budget of the running render."""
    return _current.get()


def limited(what: str) -> jinja2.TemplateRuntimeError:
    """The error of a template that goes beyond a limit."""
    return jinja2.TemplateRuntimeError(f"the template {what}")


def weight(*values: Any) -> int:
    """Characters and items in values; what they contain twice counts twice. Raises beyond the limits."""
    characters = 0
    items = 0
    stack: list[Any] = list(values)
    while stack:
        value = stack.pop()
        items += 1
        if isinstance(value, str | bytes):
            characters += len(value)
        elif isinstance(value, CONTAINERS):
            stack.extend(_held(value))
        if characters > MAX_CHARACTERS or items + len(stack) > MAX_ITEMS:
            raise limited(f"makes a value of more than {MAX_CHARACTERS} characters or {MAX_ITEMS} items")
    return characters + items


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, jinja2.utils.Namespace):
        # Where Jinja keeps a namespace's attributes.
        value = value._Namespace__attrs
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value  # type: ignore[no-any-return]


def check_number(value: Any) -> None:
    """Refuses an integer that is slow to compute with."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise limited(f"computes with integers of more than {MAX_BITS} bits")
