"""One engine under several event loops: one after another, in threads, of every kind."""

from __future__ import annotations

import asyncio
import gc
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from engines import loaded
from llmserve import Completion, Engine, EngineClosedError, ModelConfig
from llmserve._binding import wakeups
from llmserve._binding.transcript import PIECE, Transcript
from loops import PATIENCE_S, Eventually

PROMPT = list(range(20, 60))
CONFIG = ModelConfig(context_length=512, max_sequences=8, threads=1)

Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(scope="module")
def tiny(tiny_model: Path) -> Iterator[Engine]:
    with loaded(tiny_model, CONFIG) as engine:
        yield engine


@pytest.fixture(scope="module")
def expected(tiny: Engine) -> str:
    return asyncio.run(tiny.generate(PROMPT, max_tokens=30, ignore_eos=True)).text


async def stream_all(engine: Engine) -> str:
    stream = engine.stream(PROMPT, max_tokens=30, ignore_eos=True)
    texts = [delta.text async for delta in stream]
    assert isinstance(stream.completion, Completion)
    return "".join(texts)


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """Like Windows' proactor loop: it cannot watch descriptors."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        # Its own wake-up pipe is watched through another method.
        raise NotImplementedError


def run_on_asyncio(main: Main) -> Any:
    return asyncio.run(main())


def run_on_trio(main: Main) -> Any:
    return trio.run(main)


def run_on_uvloop(main: Main) -> Any:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def run_without_readers(main: Main) -> Any:
    loop = LoopWithoutReaders()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def run_with_select(main: Main) -> Any:
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


RUNNERS = [run_on_asyncio, run_on_trio, run_on_uvloop, run_without_readers, run_with_select]


@pytest.mark.parametrize("run", RUNNERS)
def test_every_kind_of_loop_and_a_second_one(run: Callable[[Main], Any], tiny: Engine, expected: str) -> None:
    for _ in range(3):
        assert run(lambda: stream_all(tiny)) == expected


def test_loops_in_threads_at_the_same_time(tiny: Engine, expected: str) -> None:
    texts: list[str] = []

    def run(runner: Callable[[Main], Any]) -> None:
        async def several() -> list[str]:
            return [await stream_all(tiny) for _ in range(3)]

        texts.extend(runner(several))

    threads = [threading.Thread(target=run, args=(runner,)) for runner in RUNNERS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert texts == [expected] * 3 * len(threads)


def num_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("run", RUNNERS)
def test_a_loop_takes_its_wake_up_along(run: Callable[[Main], Any], tiny: Engine) -> None:
    run(lambda: stream_all(tiny))
    gc.collect()
    before = (num_descriptors(), len(wakeups._channels))
    for _ in range(5):
        run(lambda: stream_all(tiny))
    gc.collect()
    assert (num_descriptors(), len(wakeups._channels)) == before


def test_relay_threads_end_with_their_loops(tiny: Engine) -> None:
    run_without_readers(lambda: stream_all(tiny))
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "llmserve wake-ups":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_a_loop_is_used_up_without_its_stream(tiny: Engine, expected: str) -> None:
    """A stream whose loop ended neither blocks the engine nor the next loop."""

    async def begin() -> Any:
        stream = tiny.stream(PROMPT, max_tokens=400, ignore_eos=True)
        await stream.__anext__()
        return stream

    left = asyncio.run(begin())
    assert asyncio.run(stream_all(tiny)) == expected
    asyncio.run(left.aclose())


def test_one_wake_up_serves_many_streams(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    wakes: list[list[int]] = []
    deliver = wakeups._Channel.deliver

    def counted(channel: wakeups._Channel, keys: list[int]) -> None:
        wakes.append(keys)
        deliver(channel, keys)

    monkeypatch.setattr(wakeups._Channel, "deliver", counted)

    async def main() -> list[int]:
        async def read() -> int:
            return len([delta async for delta in tiny.stream(PROMPT, max_tokens=400, ignore_eos=True)])

        return await asyncio.gather(*(read() for _ in range(8)))

    num_deltas = sum(asyncio.run(main()))
    assert num_deltas > 8
    # With a wake-up for each delta there were as many; together they share most.
    assert len(wakes) < num_deltas / 2
    assert max(len(keys) for keys in wakes) == 8


def test_closing_ends_the_streams_of_other_loops(tiny_model: Path) -> None:
    engine = asyncio.run(Engine.load(tiny_model, ModelConfig(context_length=1 << 15, threads=1)))
    running = threading.Event()
    errors: list[Exception] = []

    async def read() -> None:
        async for _ in engine.stream(PROMPT, ignore_eos=True):
            running.set()

    def run() -> None:
        try:
            asyncio.run(read())
        except EngineClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert running.wait(PATIENCE_S)
    trio.run(engine.close)
    thread.join(PATIENCE_S)
    assert [str(error) for error in errors] == ["the engine was shut down"]


@pytest.mark.parametrize("at_end", [True, False])
def test_a_long_output_is_taken_in_pieces_between_which_others_run(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually, at_end: bool
) -> None:
    num_tokens = 1000
    taken: list[tuple[int, int]] = []
    turns = 0
    add = Transcript.add

    def counted(transcript: Transcript, events: Any) -> int:
        num = add(transcript, events)
        taken.append((num, turns))
        return num

    async def main() -> None:
        nonlocal turns
        config = ModelConfig(context_length=2048, max_sequences=1, threads=1)
        async with await Engine.load(tiny_model, config) as engine:
            stream = engine.stream(PROMPT, max_tokens=num_tokens, ignore_eos=True, at_end=at_end)
            await eventually(lambda: engine.stats().requests_length == 1)  # it is all there
            waiting = asyncio.create_task(stream.result())
            while not waiting.done():
                turns += 1
                await asyncio.sleep(0)
            assert len(waiting.result().tokens) == num_tokens
            deltas = [delta async for delta in stream]
            assert [token for delta in deltas for token in delta.tokens] == list(waiting.result().tokens)

    monkeypatch.setattr(Transcript, "add", counted)
    asyncio.run(main())
    assert sum(num for num, _ in taken) == num_tokens
    assert max(num for num, _ in taken) == PIECE
    assert len({turn for _, turn in taken}) == len(taken)


def test_asyncio_debug_mode_finds_no_slow_callback(
    tiny: Engine, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        return await stream_all(tiny)

    assert asyncio.run(main()) == expected
    assert [
        record for record in caplog.records if record.name == "asyncio" and "took" in record.message
    ] == []


def test_a_mailbox_needs_a_loop(tiny: Engine) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        tiny.stream(PROMPT)
