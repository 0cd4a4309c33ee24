from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from llmserve.server.signals import SignalChain

NUMBER = signal.SIGTERM


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What the handlers of a host server and of the chain have heard; the process's own come back."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard: list[str] = []

    def host(number: int, frame: FrameType | None) -> None:
        heard.append("host")

    signal.signal(NUMBER, host)
    yield heard
    for number, handler in former.items():
        signal.signal(number, handler)


def raised(heard: list[str]) -> list[str]:
    heard.clear()
    signal.raise_signal(NUMBER)
    return list(heard)


def test_a_signal_reaches_the_application_and_the_host(heard: list[str]) -> None:
    async def main() -> None:
        told = asyncio.Event()
        chain = SignalChain(told.set, 1)
        chain.install()
        assert raised(heard) == ["host"]
        await told.wait()
        chain.restore()
        assert raised(heard) == ["host"]

    asyncio.run(main())


def test_a_handler_that_somebody_has_chained_passes_signals_on_after_the_end(heard: list[str]) -> None:
    async def main() -> None:
        chain = SignalChain(lambda: heard.append("application"), 1)
        chain.install()
        ours = signal.getsignal(NUMBER)
        assert callable(ours)

        def later(number: int, frame: FrameType | None) -> None:
            heard.append("later")
            ours(number, frame)

        signal.signal(NUMBER, later)
        chain.restore()
        assert raised(heard) == ["later", "host"]
        await asyncio.sleep(0)
        assert heard == ["later", "host"]
        # Installed again, both links tell the application only once.
        chain.install()
        assert raised(heard) == ["later", "host"]
        await asyncio.sleep(0)
        assert heard == ["later", "host", "application"]

    asyncio.run(main())


def test_a_closed_event_loop_does_not_keep_a_signal_from_the_host(heard: list[str]) -> None:
    async def main() -> None:
        SignalChain(lambda: None, 1).install()

    asyncio.run(main())
    assert raised(heard) == ["host"]
