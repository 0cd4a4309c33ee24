"""Downloads beside the event loop, one model at a time, which end when nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from llmserve.server.download.default import PullError
from llmserve.server.download.sources import files_of
from llmserve.server.download.transfer import RemoteFile, fetch
from llmserve.server.refusals import DownloadError

T = TypeVar("T")

_STEP = 0.01
"""The share of a file between two reports."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a file is here."""

    file: RemoteFile
    share: float


class UntilStop(Protocol):
    """Ends work when the server stops, as `GenerationService.until_stop`."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The result of the work."""


class Downloads:
    """The downloads of one process into one folder."""

    def __init__(self, folder: Path, until_stop: UntilStop) -> None:
        self._folder = folder
        self._until_stop = until_stop
        # Not the threads of others, which must not wait for the network.
        self._finding = anyio.CapacityLimiter(4)
        self._fetching = anyio.CapacityLimiter(1)

    async def find(self, what: str) -> list[RemoteFile]:
        """The files of a name that `files_of` knows.

        Raises:
            DownloadError: There is no such model, or the server that has it does not answer.
            ServerStoppingError: This server stops.
        """
        return await self._until_stop(self._on_thread(lambda: files_of(what), self._finding))

    async def fetch(self, file: RemoteFile) -> AsyncGenerator[Progress, None]:
        """Downloads a file unless it is there. Whoever leaves ends it; the next one goes on with it.

        Raises:
            DownloadError: It cannot be downloaded, or is not what it should be.
            ServerStoppingError: This server stops.
        """
        reports = _Reports(asyncio.get_running_loop())
        work = self._on_thread(lambda: fetch(file, self._folder, reports.report), self._fetching)
        task = asyncio.create_task(self._until_stop(work))
        task.add_done_callback(lambda _: reports.news.set())
        try:
            yield Progress(file, 0.0)
            while not task.done():
                await reports.news.wait()
                reports.news.clear()
                if not task.done():
                    yield Progress(file, reports.share)
            task.result()
            yield Progress(file, 1.0)
        finally:
            reports.is_over = True
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # Perhaps nobody is left who would retrieve it.

    async def _on_thread(self, work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
        try:
            return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)
        except PullError as error:
            # Clients need not know where the folder is, nor the hints for the command line.
            text = str(error).partition("\n")[0].replace(str(self._folder), "the folder of models")
            raise DownloadError(text) from error


class _Reports:
    """What a thread reports to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.news = asyncio.Event()
        self.share = 0.0
        self.is_over = False
        """Whether the download is to end."""

    def report(self, share: float) -> None:
        """Called by the thread. Raises `_AbandonedError` if nobody waits any more."""
        if self.is_over:
            raise _AbandonedError
        if share - self.share >= _STEP:
            self.share = share
            self._loop.call_soon_threadsafe(self.news.set)


class _AbandonedError(Exception):
    """Nobody waits for the download."""
