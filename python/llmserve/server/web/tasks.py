"""Tasks beside the one that serves a request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancels all tasks, then waits for them to end, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it as never retrieved


class Watchdog:
    """Watches the work of a context: what the watch raises ends the work, and is raised in its place.

    The work stays in the task that entered the context. It is cancelled once, unlike in a group of anyio's,
    where each `await` of its cleaning up would be cancelled again.
    """

    def __init__(self) -> None:
        self._work: asyncio.Task[Any] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._has_ended_work = False

    def start(self, watch: Coroutine[Any, Any, None]) -> None:
        """Begins to watch."""
        self._watch = asyncio.create_task(watch)
        self._watch.add_done_callback(self._end_work)

    def _end_work(self, watch: asyncio.Task[None]) -> None:
        if self._work is not None and not watch.cancelled() and watch.exception() is not None:
            self._has_ended_work = self._work.cancel()

    async def __aenter__(self) -> Watchdog:
        self._work = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        work, self._work = self._work, None
        if self._watch is None:
            return
        await end_tasks(self._watch)
        if self._has_ended_work and isinstance(error, asyncio.CancelledError):
            if work is not None:
                work.uncancel()
            self._watch.result()
