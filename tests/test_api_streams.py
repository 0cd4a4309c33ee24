"""Streams: leaving them, reading them slowly, waiting for them in several tasks."""

from __future__ import annotations

import gc

import anyio
import pytest

from llmserve import Completion, Delta, Engine, SamplingParams
from loops import PATIENCE_S, Eventually
from streams import PROMPT, is_idle, read

pytestmark = [pytest.mark.anyio, pytest.mark.model]


async def test_abort_ends_the_iteration(engine: Engine, eventually: Eventually) -> None:
    stream = engine.stream(PROMPT, max_tokens=1500, ignore_eos=True)
    texts = [(await stream.__anext__()).text]
    stream.abort()
    texts += [delta.text for delta in await read(stream)]
    assert stream.completion is not None
    assert stream.completion.finish_reason == "cancelled"
    assert stream.completion.text == "".join(texts)
    assert stream.completion.usage.completion_tokens == len(stream.completion.tokens) < 1500
    await eventually(lambda: is_idle(engine))


async def test_every_way_to_leave_a_stream_aborts_it(engine: Engine, eventually: Eventually) -> None:
    endless = SamplingParams(max_tokens=1500, ignore_eos=True)
    cancelled = engine.stats().requests_cancelled

    async with engine.stream(PROMPT, endless) as stream:
        await stream.__anext__()
    assert await read(stream) == []
    assert stream.completion is None
    with pytest.raises(RuntimeError, match="closed"):
        await stream.result()

    stream = engine.stream(PROMPT, endless)
    assert await stream.accepted() == 5
    await stream.aclose()
    await stream.aclose()

    async for _ in engine.stream(PROMPT, endless):
        break
    gc.collect()

    await eventually(lambda: engine.stats().requests_cancelled == cancelled + 3)
    await eventually(lambda: is_idle(engine))


async def test_cancelling_the_task_aborts_the_request(engine: Engine, eventually: Eventually) -> None:
    async def generate() -> None:
        await engine.generate(PROMPT, max_tokens=1500, ignore_eos=True)

    async with anyio.create_task_group() as group:
        group.start_soon(generate)
        await eventually(lambda: engine.stats().num_running == 1)
        group.cancel_scope.cancel()
    await eventually(lambda: is_idle(engine))


async def test_a_slow_reader_gets_merged_deltas_and_loses_nothing(
    engine: Engine, eventually: Eventually
) -> None:
    whole = await engine.generate(PROMPT, max_tokens=60, ignore_eos=True)
    num_finished = engine.stats().requests_length
    stream = engine.stream(PROMPT, max_tokens=60, ignore_eos=True)
    await eventually(lambda: engine.stats().requests_length == num_finished + 1)
    deltas = await read(stream)
    assert len(deltas) == 1
    assert [token for delta in deltas for token in delta.tokens] == list(whole.tokens)
    assert "".join(delta.text for delta in deltas) == whole.text


async def test_two_tasks_may_wait_for_one_stream(engine: Engine) -> None:
    stream = engine.stream(PROMPT, max_tokens=8)
    counts: list[int] = []
    deltas: list[Delta] = []

    async def accepted() -> None:
        counts.append(await stream.accepted())

    async def everything() -> None:
        deltas.extend(await read(stream))

    async with anyio.create_task_group() as group:
        for task in (everything, accepted, accepted):
            group.start_soon(task)
    assert counts == [5, 5]
    assert len([token for delta in deltas for token in delta.tokens]) == 8


async def test_every_task_that_waits_for_the_end_learns_of_it(engine: Engine) -> None:
    stream = engine.stream(PROMPT, max_tokens=100, ignore_eos=True)
    results: list[Completion] = []

    async def wait() -> None:
        results.append(await stream.result())

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
    assert len(results[0].tokens) == 100
    assert results == results[:1] * 3
