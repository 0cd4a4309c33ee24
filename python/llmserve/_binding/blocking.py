"""Waiting for native handles without an event loop."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from llmserve import _core, loading
from llmserve.model_config import ModelConfig

__all__ = ["Mailbox", "detokenize", "tokenize", "wait_for_load"]

T = TypeVar("T")

# Ctrl-C is noticed between two waits.
_WAIT_S = 0.1


class Mailbox:
    """Where a thread waits for one native handle."""

    __slots__ = ("_wakeup", "listener")

    def __init__(self) -> None:
        self._wakeup = _core.Wakeup()
        self.listener = self._wakeup.listener(0)

    def next(self, take: Callable[[], T | None]) -> T:
        """Block until `take` gives something."""
        while (taken := take()) is None:
            self._wakeup.wait(_WAIT_S)
            self._wakeup.drain()
        return taken


def tokenize(
    core: _core.Engine | _core.Embedder,
    text: str,
    add_special: bool,
    special: Literal["plain", "control", "marked"],
) -> list[int]:
    """The token ids of a text."""
    mailbox = Mailbox()
    job = core.tokenize(text, add_special, special, mailbox.listener)
    return mailbox.next(functools.partial(job.take, sys.maxsize))


def detokenize(core: _core.Engine | _core.Embedder, tokens: Sequence[int], render_special: bool) -> str:
    """The text of token ids."""
    mailbox = Mailbox()
    buffer = _core.TokenBuffer()
    buffer.extend(tokens)
    job = core.detokenize(buffer, render_special, mailbox.listener)
    return mailbox.next(job.take).decode(errors="replace")


def wait_for_load(
    path: str | os.PathLike[str],
    config: ModelConfig,
    wanted: loading.Wanted,
    on_progress: Callable[[float], object] | None,
) -> _core.Engine | _core.Embedder:
    """Load a model. Raises `LoadError`."""
    mailbox = Mailbox()
    load = loading.begin(path, config, mailbox.listener, wanted)
    percents = loading.WholePercents()
    if on_progress is not None:
        on_progress(0.0)
    while True:
        for event in mailbox.next(load.take):
            if event[0] == "ready":
                return event[1]
            if event[0] == "failed":
                raise event[1]
            if on_progress is not None and percents.admits(event[1]):
                on_progress(event[1])
