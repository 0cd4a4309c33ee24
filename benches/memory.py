"""Resident memory over 100 rounds of streams that are started and dropped."""

from __future__ import annotations

import asyncio
import os
import random

from llmserve import Engine, ModelConfig

from .harness import BenchError, Figure, Goal, Setting, measured
from .processes import resident_mb
from .prompts import text

ROUNDS = 100
SETTLED = 20
STREAMS = 8
CELLS = 1024
PROMPT_TOKENS = 16
GOAL = Goal(1.05)


def run(setting: Setting) -> list[Figure]:
    """Compares the memory after the last round with that after round 20; one run is enough."""
    sizes = asyncio.run(_sizes_mb(setting))
    settled, last = sizes[SETTLED - 1], sizes[-1]
    return [
        measured(f"memory after round {ROUNDS} / round {SETTLED}", "ratio", [last / settled], GOAL),
        measured(f"memory after round {SETTLED}", "MB", [settled]),
        measured(f"memory after round {ROUNDS}", "MB", [last]),
    ]


async def _sizes_mb(setting: Setting) -> list[float]:
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=STREAMS,
        context_length=CELLS,
        kv_cells=CELLS * STREAMS,
        kv_layout=setting.kv_layout,
    )
    chance = random.Random(7)  # noqa: S311 - no secret
    sizes = []
    async with await Engine.load(setting.model, config) as engine:
        for number in range(ROUNDS):
            patience = [chance.randrange(12) for _ in range(STREAMS)]
            await asyncio.gather(
                *(
                    _drop(engine, text(number * STREAMS + one, PROMPT_TOKENS), after)
                    for one, after in enumerate(patience)
                )
            )
            sizes.append(resident_mb(os.getpid()))
        await engine.generate("The end", max_tokens=1)  # the last dropped ones leave in its first step
        if engine.stats().num_running:
            raise BenchError(f"{engine.stats().num_running} sequences still run after the last round")
    return sizes


async def _drop(engine: Engine, prompt: str, after: int) -> None:
    """Starts a stream and leaves it after `after` deltas (0: before the first)."""
    async with engine.stream(prompt, max_tokens=64, ignore_eos=True) as stream:
        await stream.accepted()
        if after == 0:
            return
        seen = 0
        async for _ in stream:
            seen += 1
            if seen >= after:
                return
