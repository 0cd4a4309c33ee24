"""Operations without an event loop: each blocks its thread, and no other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from llmserve import _core
from llmserve._binding import waiting
from llmserve._binding.waiting import Waiting

__all__ = ["Blocking", "run"]

T = TypeVar("T")

# Ctrl-C is noticed between two waits.
_WAIT_S = 0.1


class _Mailbox(waiting.Mailbox):
    """Where a thread waits for one native handle."""

    __slots__ = ("_wakeup",)

    def __init__(self) -> None:
        self._wakeup = _core.Wakeup()
        self.listener = self._wakeup.listener(0)

    async def poll(self, take: Callable[[], T | None]) -> T | None:
        taken = take()
        if taken is None:
            self._wakeup.wait(_WAIT_S)
            self._wakeup.drain()
        return taken


class Blocking(Waiting):
    """A handle whose operations return when they are done."""

    __slots__ = ()

    @staticmethod
    def _mailbox() -> waiting.Mailbox:
        return _Mailbox()

    @staticmethod
    async def _checkpoint() -> None:
        pass

    @staticmethod
    async def _in_thread(function: Callable[[], T], *, shield: bool = False) -> T:
        return function()


def run(steps: Coroutine[Any, Any, T]) -> T:
    """Drive the steps of a `Blocking` handle. They block where they wait, so they run through at once."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    steps.close()
    raise RuntimeError("a blocking operation waited for an event loop")
