from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from starlette.types import Receive, Scope, Send

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.web.draining import DrainMiddleware
from llmserve.server.web.sse import ClientStalledError


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


@pytest.mark.parametrize("is_stopping", [True, False])
def test_a_stopping_server_that_gives_up_on_a_client_is_no_fault(is_stopping: bool) -> None:
    async def main() -> None:
        lifecycle, has_begun = Lifecycle(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            has_begun.set()
            await asyncio.Event().wait()

        async def unused(*arguments: object) -> None:
            raise AssertionError

        middleware = DrainMiddleware(app, lifecycle, ())
        serving = asyncio.create_task(middleware({"path": "/"}, unused, unused))  # type: ignore[arg-type]
        await has_begun.wait()
        if is_stopping:
            lifecycle.stop()
        serving.cancel()
        with pytest.raises(ClientStalledError if is_stopping else asyncio.CancelledError):
            await serving

    asyncio.run(main())
