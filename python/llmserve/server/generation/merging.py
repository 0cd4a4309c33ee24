"""Several sources of output as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

from llmserve.server.web.tasks import end_tasks

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """A stream or a generator."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    async def aclose(self) -> None:
        """Ends it."""


async def merged(sources: Sequence[Source[T]]) -> AsyncGenerator[tuple[int, T | None], None]:
    """The outputs of the sources as they come, with the sources' numbers; `None` at the end of each.

    The first exception of a source ends all of them. A source waits until its output is taken.
    """
    if len(sources) == 1:
        async with aclosing(sources[0]) as source:
            async for item in source:
                yield 0, item
        yield 0, None
        return
    queue: asyncio.Queue[tuple[int, T | None]] = asyncio.Queue(maxsize=len(sources))
    feeding = {asyncio.create_task(_feed(queue, index, source)) for index, source in enumerate(sources)}
    taking = asyncio.create_task(queue.get())
    try:
        running = set(feeding)
        while running or not queue.empty() or taking.done():
            done, _ = await asyncio.wait({taking, *running}, return_when=asyncio.FIRST_COMPLETED)
            if taking in done:
                yield taking.result()
                taking = asyncio.create_task(queue.get())
            for task in done & running:
                running.discard(task)
                task.result()
            # A task that was just created takes what is there in the next turn.
            await asyncio.sleep(0)
    finally:
        await end_tasks(taking, *feeding)


async def _feed(queue: asyncio.Queue[tuple[int, T | None]], index: int, source: Source[T]) -> None:
    async with aclosing(source):
        async for item in source:
            await queue.put((index, item))
    await queue.put((index, None))
