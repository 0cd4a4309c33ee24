"""What the steps of an operation wait with, whoever drives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from llmserve import _core

__all__ = ["Mailbox", "Waiting"]

T = TypeVar("T")


class Mailbox(ABC):
    """Where one waits for one native handle, which gets `listener`."""

    __slots__ = ("listener",)
    listener: _core.Listener

    @abstractmethod
    async def poll(self, take: Callable[[], T | None]) -> T | None:
        """What `take` gives at once, or `None` after the next wake-up."""

    async def next(self, take: Callable[[], T | None]) -> T:
        """Wait until `take` gives something. For one task: another could take what it waits for."""
        while (taken := await self.poll(take)) is None:
            pass
        return taken


class Waiting(ABC):
    """A handle whose operations wait: on an event loop (`Awaited`), or by blocking (`Blocking`)."""

    __slots__ = ()

    @staticmethod
    @abstractmethod
    def _mailbox() -> Mailbox:
        """A new mailbox."""

    @staticmethod
    @abstractmethod
    async def _checkpoint() -> None:
        """Let others run."""

    @staticmethod
    @abstractmethod
    async def _in_thread(function: Callable[[], T], *, shield: bool = False) -> T:
        """Call what computes or blocks for long. With `shield` nothing keeps it from being called."""
