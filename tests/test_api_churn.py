"""Streams that are begun and dropped at random leave nothing behind."""

from __future__ import annotations

import gc
import os
import random
import sys
from pathlib import Path

import anyio
import pytest

from llmserve import Engine, ModelConfig, Stream
from loops import Eventually

# Twice as many streams as the model has slots.
NUM_STREAMS = 8
# Memory is the engine's: one loop is enough to see whether it grows.
NUM_ROUNDS = {"asyncio": 36, "trio": 6}
# By then all caches are full.
NUM_FIRST_ROUNDS = 15
# Host memory for cached prefixes is full after a few rounds.
CONFIG = ModelConfig(context_length=512, max_sequences=4, threads=1, parking_bytes=1 << 20)


async def drop_by_break(stream: Stream, num_deltas: int) -> None:
    async for _ in stream:
        if (num_deltas := num_deltas - 1) <= 0:
            break


async def drop_by_close(stream: Stream, num_deltas: int) -> None:
    async with stream:
        await drop_by_break(stream, num_deltas)


async def drop_by_abort(stream: Stream, num_deltas: int) -> None:
    async for _ in stream:
        if (num_deltas := num_deltas - 1) == 0:
            stream.abort()
    assert stream.completion is not None


async def drop_by_cancel(stream: Stream, num_deltas: int) -> None:
    with anyio.CancelScope() as scope:
        async for _ in stream:
            if (num_deltas := num_deltas - 1) <= 0:
                scope.cancel()


async def drop_at_once(stream: Stream, num_deltas: int) -> None:
    await anyio.lowlevel.checkpoint()


async def churn(engine: Engine, draw: random.Random) -> None:
    ways = (drop_by_break, drop_by_close, drop_by_abort, drop_by_cancel, drop_at_once)
    async with anyio.create_task_group() as group:
        for _ in range(NUM_STREAMS):
            # Long prompts, so that some are dropped while they are computed.
            prompt = [draw.randrange(20, 60) for _ in range(draw.choice((3, 60, 300)))]
            stream = engine.stream(prompt, max_tokens=60, ignore_eos=True)
            group.start_soon(draw.choice(ways), stream, draw.randrange(20))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.anyio
async def test_many_rounds_leave_nothing(
    anyio_backend: str, tiny_model: Path, eventually: Eventually
) -> None:
    draw = random.Random(7)  # noqa: S311 - no secret
    prompt = list(range(20, 40))
    sizes: list[int] = []
    async with await Engine.load(tiny_model, CONFIG) as engine:
        expected = (await engine.generate(prompt, max_tokens=20, ignore_eos=True)).text
        for _ in range(NUM_ROUNDS[anyio_backend]):
            await churn(engine, draw)
            assert (await engine.generate(prompt, max_tokens=20, ignore_eos=True)).text == expected
            gc.collect()
            sizes.append(resident_bytes() if sys.platform == "linux" else 0)
        stats = engine.stats()
        await eventually(lambda: engine.stats().num_running == 0)
        await eventually(lambda: engine.stats().num_waiting + engine.stats().num_preparing == 0)
        assert stats.requests_failed == stats.requests_refused == 0
        assert stats.requests_cancelled > 3 * len(sizes)
    if len(sizes) > NUM_FIRST_ROUNDS:
        assert sizes[-1] <= sizes[NUM_FIRST_ROUNDS] * 1.05


def engine_threads() -> int:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return names.count("llmserve-engine")


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_an_engine_ends_when_it_and_its_streams_are_dropped(
    tiny_model: Path, eventually: Eventually
) -> None:
    before = engine_threads()
    stream = (await Engine.load(tiny_model, CONFIG)).stream([30, 31, 32], max_tokens=200, ignore_eos=True)
    gc.collect()
    assert len([token async for delta in stream for token in delta.tokens]) == 200
    del stream
    gc.collect()
    await eventually(lambda: engine_threads() == before)
