"""Lets the application hear the signals that end a server which is not ours.

uvicorn, on SIGTERM, closes its listeners and waits for open streams without limit; it tells the application
only after that. So the application puts its own handlers before uvicorn's.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from llmserve.workers import uvicorn_server

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalChain:
    """Calls ``on_signal`` on the event loop, then whatever handled the signal before."""

    def __init__(self, on_signal: Callable[[], None], grace_s: float) -> None:
        self._on_signal = on_signal
        self._grace_s = grace_s
        self._previous: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._mine: Callable[[int, FrameType | None], None] | None = None

    def install(self) -> None:
        """Chains the handlers that there are; only the main thread may, elsewhere nothing happens."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._limit_uvicorn()
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._on_signal)
            self._previous[number](number, frame)

        self._mine = handle
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            if callable(previous) and previous is not signal.default_int_handler:
                self._previous[number] = previous
                signal.signal(number, handle)

    def restore(self) -> None:
        """Puts the earlier handlers back where ours still stand."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, previous in self._previous.items():
            if signal.getsignal(number) is self._mine:
                signal.signal(number, previous)
        self._previous.clear()

    def _limit_uvicorn(self) -> None:
        """A client that reads no more keeps its connection open even when its stream has ended."""
        server = uvicorn_server()
        if server is not None and getattr(server.config, "timeout_graceful_shutdown", 0) is None:
            server.config.timeout_graceful_shutdown = max(1, round(self._grace_s))
