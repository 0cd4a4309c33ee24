"""How free the GIL is while 8 streams decode on all cores but one: a counting thread, and `/health`."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import statistics
import time

from llmserve import Engine, ModelConfig

from .harness import BenchError, Figure, Goal, Setting, interleave, measured
from .prompts import refrain
from .servers import Server, llmserve
from .streams import run_plan

STREAMS = 8
CELLS = 2048
PROMPT_TOKENS = 64
COUNT_S = 3.0
HEALTH_TOKENS = 160
COUNT_GOAL = Goal(0.9, at_most=False)
HEALTH_GOAL = Goal(50.0)


def run(setting: Setting) -> list[Figure]:
    """Counts alone and beside the streams in turns, then polls `/health` of a server with the same load."""
    setting = dataclasses.replace(setting, threads=max(1, len(_cores()) - 1))
    results = interleave(
        setting.runs,
        {
            "counting alone": lambda _: _count(),
            "beside 8 streams": lambda _: asyncio.run(_busy_count(setting)),
        },
    )
    pairs = zip(results["beside 8 streams"], results["counting alone"], strict=True)
    speeds = [busy / alone for busy, alone in pairs]
    with llmserve(setting, STREAMS, CELLS) as server:
        slowest = interleave(setting.runs, {"/health": lambda number: _health_p99_ms(server, number)})
    return [
        measured("counting thread beside 8 streams / alone", "ratio", speeds, COUNT_GOAL),
        measured("/health p99 beside 8 streams", "ms", slowest["/health"], HEALTH_GOAL),
    ]


def _cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _count() -> float:
    """How fast pure Python counts in `COUNT_S` seconds; counts a second."""
    count = 0
    started = time.perf_counter()
    while (now := time.perf_counter()) - started < COUNT_S:
        for _ in range(1000):
            count += 1
    return count / (now - started)


async def _busy_count(setting: Setting) -> float:
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=STREAMS,
        context_length=CELLS,
        kv_cells=CELLS * STREAMS,
        kv_layout=setting.kv_layout,
    )
    async with await Engine.load(setting.model, config) as engine:
        begun = [asyncio.Event() for _ in range(STREAMS)]
        readers = [
            asyncio.create_task(_read(engine, refrain(number, PROMPT_TOKENS), begun[number]))
            for number in range(STREAMS)
        ]
        await asyncio.gather(*(event.wait() for event in begun))
        before = engine.stats()
        speed = await asyncio.to_thread(_count)
        after = engine.stats()
        if any(reader.done() for reader in readers):
            raise BenchError("a stream ended while the thread counted")
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    if after == before:
        raise BenchError("the engine did nothing while the thread counted")
    return speed


async def _read(engine: Engine, prompt: str, begun: asyncio.Event) -> None:
    async with engine.stream(prompt, max_tokens=CELLS - 2 * PROMPT_TOKENS, ignore_eos=True) as stream:
        async for _ in stream:
            begun.set()


def _health_p99_ms(server: Server, number: int) -> float:
    requests = [
        server.completion(refrain(100 * number + stream, PROMPT_TOKENS), HEALTH_TOKENS)
        for stream in range(STREAMS)
    ]
    outcome = run_plan(server.port, requests, poll_path="/health")
    if len(outcome.latencies) < 100:
        raise BenchError(f"only {len(outcome.latencies)} answers of /health while the streams ran")
    return 1000 * statistics.quantiles(outcome.latencies, n=100)[98]
