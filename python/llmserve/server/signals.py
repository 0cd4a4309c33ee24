"""Lets the application hear the signals that end a server other than ours.

uvicorn, on SIGTERM, closes its listeners and waits for open streams without limit; it tells the application
only after that. So the application puts its own handlers before uvicorn's.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from llmserve.server.workers import uvicorn_server

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


Handler = Callable[[int, FrameType | None], Any]


class _Link:
    """One handler of ours, which knows the one before it for as long as anybody may call it."""

    def __init__(
        self, previous: Handler, loop: asyncio.AbstractEventLoop, on_signal: Callable[[], None]
    ) -> None:
        self.previous = previous
        self.is_live = True
        self._loop = loop
        self._on_signal = on_signal

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_live:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._on_signal)
        self.previous(number, frame)


class SignalChain:
    """Calls ``on_signal`` on the event loop, then whatever handled the signal before."""

    def __init__(self, on_signal: Callable[[], None], grace_s: float) -> None:
        self._on_signal = on_signal
        self._grace_s = grace_s
        self._links: dict[int, _Link] = {}

    def install(self) -> None:
        """Chains the existing handlers; does nothing outside the main thread, which alone may."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._limit_uvicorn()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            if callable(previous) and previous is not signal.default_int_handler:
                link = self._links[number] = _Link(previous, loop, self._on_signal)
                signal.signal(number, link)

    def restore(self) -> None:
        """Puts the earlier handlers back where ours still stand; the others only pass signals on."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, link in self._links.items():
            link.is_live = False
            stands = signal.getsignal(number) is link
            if stands:
                signal.signal(number, link.previous)
        self._links.clear()

    def _limit_uvicorn(self) -> None:
        """A client that reads no more keeps its connection open even when its stream has ended."""
        server = uvicorn_server()
        if server is not None and getattr(server.config, "timeout_graceful_shutdown", 0) is None:
            server.config.timeout_graceful_shutdown = max(1, round(self._grace_s))
