"""Decode speed of the engine alone, through the Python API, at 1, 4, 8 and 16 sequences."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from llmserve import Engine, ModelConfig

from .harness import CELLS, DECODE_TOKENS, PROMPT_TOKENS, Figure, Goal, Setting, compared, interleave
from .peer_tools import batched_decode_rates, bench_decode_rate
from .prompts import refrain
from .streams import Trace, decode_rate

GOAL = Goal(0.95, at_most=False)


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-batched-bench`, and one sequence with `llama-bench` too."""
    single: dict[str, Callable[[int], dict[int, float]]] = {}
    if 1 in setting.sequences:
        single["llama-bench"] = partial(_single_peer_rate, setting)
    batched: dict[str, Callable[[int], dict[int, float]]] = {
        "llama-batched-bench": lambda _: batched_decode_rates(setting, PROMPT_TOKENS, DECODE_TOKENS, CELLS),
        "engine": lambda _: asyncio.run(_rates(setting)),
    }
    results = interleave(setting.runs, {**single, **batched})
    figures = []
    if single:
        figures.append(_figure("1 sequence, llama-bench", results["engine"], results["llama-bench"], 1))
    for count in setting.sequences:
        name = f"{count} sequences, llama-batched-bench"
        figures.append(_figure(name, results["engine"], results["llama-batched-bench"], count))
    return figures


def _single_peer_rate(setting: Setting, _: int) -> dict[int, float]:
    return {1: bench_decode_rate(setting, PROMPT_TOKENS, DECODE_TOKENS)}


def _figure(name: str, ours: list[dict[int, float]], peer: list[dict[int, float]], count: int) -> Figure:
    return compared(name, "tok/s", [run[count] for run in ours], [run[count] for run in peer], GOAL)


async def _rates(setting: Setting) -> dict[int, float]:
    sequences = max(setting.sequences)
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=sequences,
        context_length=CELLS,
        kv_cells=CELLS * sequences,
        kv_layout=setting.kv_layout,
        batch_size=setting.batch_size,
        ubatch_size=setting.batch_size,
    )
    async with await Engine.load(setting.model, config) as engine:
        return {count: await _rate(engine, count) for count in setting.sequences}


async def _rate(engine: Engine, count: int) -> float:
    """Decode speed at `count` streams.

    Each prompt is computed beforehand and found again in the prefix cache, so that all streams decode
    from the start, as in the peer's tools.
    """
    prompts = [refrain(number, PROMPT_TOKENS) for number in range(count)]
    await asyncio.gather(*(_trace(engine, prompt, 1) for prompt in prompts))
    traces = await asyncio.gather(*(_trace(engine, prompt, DECODE_TOKENS) for prompt in prompts))
    return decode_rate(traces, DECODE_TOKENS // 2)


async def _trace(engine: Engine, prompt: str, max_tokens: int) -> Trace:
    trace = Trace(time.perf_counter())
    async for delta in engine.stream(prompt, max_tokens=max_tokens, ignore_eos=True):
        trace.add(time.perf_counter(), len(delta.tokens))
    return trace
