from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from llmserve.server.lifecycle import Lifecycle


def test_states_and_aborts() -> None:
    async def main() -> None:
        lifecycle = Lifecycle()
        aborted: list[str] = []
        with lifecycle.running(lambda: aborted.append("a")):
            lifecycle.drain()
            assert (lifecycle.state, aborted) == ("draining", [])
            with lifecycle.running(lambda: aborted.append("gone")):
                pass
            lifecycle.stop()
            assert (lifecycle.state, aborted) == ("stopping", ["a"])
            with lifecycle.running(lambda: aborted.append("late")):
                assert aborted == ["a", "late"]
        lifecycle.drain()
        assert lifecycle.is_stopping

    asyncio.run(main())


def test_an_abort_that_fails_keeps_nobody_from_being_aborted(caplog: pytest.LogCaptureFixture) -> None:
    aborted: list[str] = []

    def fail() -> None:
        aborted.append("failing")
        raise RuntimeError("no")

    lifecycle = Lifecycle()
    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(lifecycle.running(lambda number=number: aborted.append(str(number))))  # type: ignore[misc]
        stack.enter_context(lifecycle.running(fail))
        lifecycle.stop()
    assert sorted(aborted) == ["0", "1", "2", "failing"]
    assert "could not be aborted" in caplog.text


def test_idle_means_no_open_exchange() -> None:
    async def main() -> None:
        lifecycle = Lifecycle()
        await lifecycle.wait_idle()
        with lifecycle.exchange():
            waiting = asyncio.create_task(lifecycle.wait_idle())
            with lifecycle.exchange():
                pass
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting

    asyncio.run(main())


def test_each_change_of_the_state_is_told() -> None:
    lifecycle = Lifecycle()
    first = lifecycle.next_change
    lifecycle.drain()
    second = lifecycle.next_change
    assert first.is_set()
    assert not second.is_set()
    lifecycle.drain()  # which it does already
    assert not second.is_set()
    lifecycle.stop()
    assert second.is_set()
