"""How results of engine threads reach tasks of event loops.

Each event loop has one wake-up channel, made at its first use and dropped with the loop. Engine threads
signal it at most once a step; the loop then drains it in one call and tells the mailboxes that have
something.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from llmserve import _core
from llmserve._binding import waiting

if TYPE_CHECKING:
    import trio.lowlevel

__all__ = ["Mailbox"]

T = TypeVar("T")


class Event(Protocol):
    """A one-shot event of an event loop."""

    def set(self) -> None:
        """Wake the waiting tasks."""

    async def wait(self) -> object:
        """Return once the event is set."""


class Mailbox(waiting.Mailbox):
    """Where a task waits for one native handle. It belongs to the event loop in which it was made.

    Raises `RuntimeError` outside of one.
    """

    __slots__ = ("__weakref__", "_event", "_new_event")

    def __init__(self) -> None:
        channel = _current_channel()
        self._new_event = channel.new_event
        self._event = channel.new_event()
        self.listener = channel.add(self)

    def notify(self) -> None:
        """Wake every task that waits. Called on the loop's thread."""
        event, self._event = self._event, self._new_event()
        event.set()

    async def poll(self, take: Callable[[], T | None]) -> T | None:
        # The event is fetched first: what arrives after `take` sets it.
        event = self._event
        taken = take()
        if taken is None:
            await event.wait()
        return taken


class _Channel:
    """The wake-up of one event loop and the mailboxes that it serves. It must not refer to the loop."""

    def __init__(self, new_event: Callable[[], Event]) -> None:
        self.new_event = new_event
        self.wakeup = _core.Wakeup()
        self._keys = itertools.count()
        # Weak: a stream that is dropped without being closed takes its mailbox along.
        self._mailboxes: weakref.WeakValueDictionary[int, Mailbox] = weakref.WeakValueDictionary()

    def add(self, mailbox: Mailbox) -> _core.Listener:
        key = next(self._keys)
        self._mailboxes[key] = mailbox
        return self.wakeup.listener(key)

    def drain(self) -> None:
        """Tell every mailbox that has something. Called on the loop's thread."""
        self.deliver(self.wakeup.drain())

    def deliver(self, keys: list[int]) -> None:
        for key in keys:
            mailbox = self._mailboxes.get(key)
            if mailbox is not None:
                mailbox.notify()


# By event loop (asyncio) or run token (trio). Only a loop's own thread adds or looks up its entry.
_channels: weakref.WeakKeyDictionary[object, _Channel] = weakref.WeakKeyDictionary()


def _current_channel() -> _Channel:
    if _in_trio_task():
        import trio

        token = trio.lowlevel.current_trio_token()
        return _channels.get(token) or _watch_on_trio(token)
    loop = asyncio.get_running_loop()
    return _channels.get(loop) or _watch_on_asyncio(loop)


def _in_trio_task() -> bool:
    trio_lowlevel = sys.modules.get("trio.lowlevel")
    return trio_lowlevel is not None and bool(trio_lowlevel.in_trio_task())


def _watch_on_asyncio(loop: asyncio.AbstractEventLoop) -> _Channel:
    channel = _channels[loop] = _Channel(asyncio.Event)
    # Nothing to do at exit: the descriptor goes with the process.
    weakref.finalize(loop, channel.wakeup.close).atexit = False
    try:
        loop.add_reader(channel.wakeup.fileno(), channel.drain)
    except NotImplementedError:
        known = weakref.ref(loop)

        def call_soon(keys: list[int]) -> None:
            if (loop := known()) is not None:
                loop.call_soon_threadsafe(channel.deliver, keys)

        _start_relay(channel, call_soon)
    return channel


def _watch_on_trio(token: trio.lowlevel.TrioToken) -> _Channel:
    import trio

    channel = _channels[token] = _Channel(trio.Event)
    weakref.finalize(token, channel.wakeup.close).atexit = False
    try:
        fileno = channel.wakeup.fileno()
    except NotImplementedError:
        known = weakref.ref(token)

        def call_soon(keys: list[int]) -> None:
            if (token := known()) is not None:
                token.run_sync_soon(channel.deliver, keys)

        _start_relay(channel, call_soon)
        return channel

    async def drain_until_cancelled() -> None:
        # trio cancels its system tasks when the run ends.
        try:
            while True:
                await trio.lowlevel.wait_readable(fileno)
                channel.drain()
        finally:
            channel.wakeup.close()

    trio.lowlevel.spawn_system_task(drain_until_cancelled, name="llmserve wake-ups")
    return channel


def _start_relay(channel: _Channel, call_soon: Callable[[list[int]], None]) -> None:
    """Serve a loop that cannot watch descriptors from a thread; it ends with the loop."""

    def relay() -> None:
        # The loop may be closed at any moment: `RuntimeError` on both libraries.
        with contextlib.suppress(RuntimeError):
            while channel.wakeup.wait():
                call_soon(channel.wakeup.drain())

    threading.Thread(target=relay, name="llmserve wake-ups", daemon=True).start()
