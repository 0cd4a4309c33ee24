"""The server's life: serving, leaving, draining, stopping.

*Leaving* serves as before, but says that it is not ready: whoever distributes requests is to stop sending
them here. *Draining* refuses new requests and lets running ones go on. *Stopping* aborts those that still
run, which then end with their terminal event. All methods belong to the event loop's thread; signal handlers
come in through ``loop.call_soon_threadsafe``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from llmserve.server.callbacks import call_all

logger = logging.getLogger(__name__)

State = Literal["serving", "leaving", "draining", "stopping"]


class Lifecycle:
    """Knows the state, the open exchanges and how to abort what runs in them."""

    def __init__(self) -> None:
        self._state: State = "serving"
        self._num_open = 0
        self._aborts: set[Callable[[], object]] = set()
        self._change = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def state(self) -> State:
        """What the server does with requests."""
        return self._state

    @property
    def is_serving(self) -> bool:
        """Whether new requests are taken."""
        return self._state in ("serving", "leaving")

    @property
    def is_staying(self) -> bool:
        """Whether new requests are taken, and no end is in sight."""
        return self._state == "serving"

    @property
    def is_stopping(self) -> bool:
        """Whether running requests are aborted."""
        return self._state == "stopping"

    def leave(self) -> None:
        """Be no longer ready, though new requests are still taken."""
        if self._state == "serving":
            self._set_state("leaving")

    def drain(self) -> None:
        """Take no new requests."""
        if self.is_serving:
            self._set_state("draining")

    def stop(self) -> None:
        """Take no new requests and abort the running ones."""
        self._set_state("stopping")
        # Nobody else would end those that still run.
        call_all(logger, "a running request could not be aborted", self._aborts)

    def _set_state(self, state: State) -> None:
        self._state = state
        self._change.set()
        self._change = asyncio.Event()

    @property
    def next_change(self) -> asyncio.Event:
        """An event that is set when the current state changes."""
        return self._change

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """Counts one request and its answer as open."""
        self._num_open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._num_open -= 1
            if self._num_open == 0:
                self._idle.set()

    @contextmanager
    def running(self, abort: Callable[[], object]) -> Iterator[None]:
        """Has ``abort`` called when the server stops, at once if it is stopping already."""
        self._aborts.add(abort)
        try:
            if self.is_stopping:
                abort()
            yield
        finally:
            self._aborts.discard(abort)

    async def wait_idle(self) -> None:
        """Waits until no exchange is open."""
        await self._idle.wait()
