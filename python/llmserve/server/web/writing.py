"""Writes to clients, none of which may make the server wait for ever."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

import anyio
from starlette.types import Message, Send

from llmserve.server.web.tasks import Watchdog

T = TypeVar("T")


class ClientStalledError(Exception):
    """The client has read nothing for too long."""


async def send_in_time(send: Send, message: Message, stall_s: float) -> None:
    """Sends one message.

    Raises:
        ClientStalledError: The client reads nothing of what was sent before.
    """
    with anyio.move_on_after(stall_s) as patience:
        await send(message)
    if patience.cancelled_caught:
        raise ClientStalledError


class Writer(Generic[T]):
    """Writes the messages of a stream, in a context that ends when the client stalls.

    A watchdog of one timer, not one per message, sees a client that has taken nothing for ``stall_s``, and
    sends ``ping``, if there is one, whenever nothing was sent for ``ping_s``.

    Raises:
        ClientStalledError: From the context; the stream is left unfinished.
    """

    def __init__(
        self,
        write: Callable[[T], Awaitable[object]],
        stall_s: float,
        *,
        ping: T | None = None,
        ping_s: float = math.inf,
    ) -> None:
        self._write = write
        self._stall_s = stall_s
        self._ping_message = ping
        self._ping_s = ping_s
        self._clock = asyncio.get_running_loop().time
        self._lock = asyncio.Lock()
        self._sent_at = self._clock()
        self._sending_since: float | None = None
        self._watchdog = Watchdog()

    async def write(self, message: T) -> None:
        """Writes one message."""
        async with self._lock:
            self._sending_since = self._clock()
            await self._write(message)
            self._sent_at = self._clock()
            self._sending_since = None

    async def __aenter__(self) -> Writer[T]:
        await self._watchdog.__aenter__()
        self._watchdog.start(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._watchdog.__aexit__(kind, error, traceback)

    async def _watch(self) -> None:
        while True:
            now = self._clock()
            if self._sending_since is not None:
                due = self._sending_since + self._stall_s
                if now >= due:
                    raise ClientStalledError
            else:
                due = self._sent_at + self._ping_s
                if now >= due and self._ping_message is not None:
                    await self._ping(self._ping_message)
                    continue
            # A write that begins while this sleeps is noticed in time.
            await asyncio.sleep(min(due - now, self._ping_s, self._stall_s))

    async def _ping(self, message: T) -> None:
        with anyio.move_on_after(self._stall_s) as patience:
            await self.write(message)
        if patience.cancelled_caught:
            raise ClientStalledError
