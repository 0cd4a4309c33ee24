"""A watch beside the work of a request."""

from __future__ import annotations

import asyncio

import pytest

from llmserve.server.web.tasks import Watchdog


class BittenError(Exception):
    pass


async def bite() -> None:
    raise BittenError


def test_what_the_watch_raises_ends_the_work_and_is_raised_in_its_place() -> None:
    cleaned_up: list[int] = []

    async def main() -> None:
        with pytest.raises(BittenError):
            async with Watchdog() as watchdog:
                watchdog.start(bite())
                try:
                    await asyncio.Event().wait()
                finally:
                    for step in range(3):  # each of which may wait
                        await asyncio.sleep(0)
                        cleaned_up.append(step)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(main())
    assert cleaned_up == [0, 1, 2]


def test_work_that_ends_first_is_not_disturbed() -> None:
    async def main() -> None:
        async with Watchdog() as watchdog:
            watchdog.start(bite())
        async with Watchdog() as watchdog:
            watchdog.start(asyncio.sleep(1000))
        await asyncio.sleep(0)

    asyncio.run(main())


def test_faults_of_the_work_and_cancellations_from_outside_come_through() -> None:
    async def work(has_begun: asyncio.Event) -> None:
        async with Watchdog() as watchdog:
            watchdog.start(asyncio.sleep(1000))
            has_begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            async with Watchdog() as watchdog:
                watchdog.start(asyncio.sleep(1000))
                raise ValueError("broken")
        has_begun = asyncio.Event()
        working = asyncio.create_task(work(has_begun))
        await has_begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())
