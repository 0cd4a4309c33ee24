"""Operations that an event loop drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from llmserve._binding import wakeups
from llmserve._binding.waiting import Mailbox, Waiting

__all__ = ["Awaited"]

T = TypeVar("T")


class Awaited(Waiting):
    """A handle whose operations are awaited, on asyncio or trio."""

    __slots__ = ()

    @staticmethod
    def _mailbox() -> Mailbox:
        return wakeups.Mailbox()

    @staticmethod
    async def _checkpoint() -> None:
        await anyio.lowlevel.checkpoint()

    @staticmethod
    async def _in_thread(function: Callable[[], T], *, shield: bool = False) -> T:
        with anyio.CancelScope(shield=shield):
            result = await anyio.to_thread.run_sync(function)
        return result  # noqa: RET504 - a scope may end without it, for all that mypy knows
