"""What a server without options costs: time to ready, and resident memory before and after a long prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from llmserve import Engine

from .harness import Figure, Goal, Setting, beside, compared, interleave, measured
from .processes import resident_mb
from .prompts import text
from .servers import Server, llama_server_by_default, llmserve_by_default
from .streams import run_plan

PROMPT_WORDS = 1700
LATER_S = 5.0
READY_GOAL = Goal(0.45)
MEMORY_GOAL = Goal(400.0)


@dataclass(frozen=True, slots=True)
class Footprint:
    """One start."""

    ready_s: float
    started_mb: float
    prompt_mb: float
    later_mb: float


def run(setting: Setting) -> list[Figure]:
    """Compares with `llama-server`; `Engine.load` is what a program waits for."""
    sides: dict[str, Callable[[int], Footprint]] = {
        "llmserve": partial(_measure, llmserve_by_default, setting),
        "llama-server": partial(_measure, llama_server_by_default, setting),
    }
    for server_by_default in (llmserve_by_default, llama_server_by_default):
        with server_by_default(setting):
            pass  # fills the file cache, and writes the bytecode of modules that never had any
    results = interleave(setting.runs, sides)
    ours, theirs = results["llmserve"], results["llama-server"]
    loads = [asyncio.run(_load_s(setting)) for _ in range(setting.runs)]

    def both(field: str) -> tuple[list[float], list[float]]:
        return [getattr(one, field) for one in ours], [getattr(one, field) for one in theirs]

    return [
        beside("process start to ready", "s", *both("ready_s"), READY_GOAL),
        measured("Engine.load", "s", loads),
        beside("memory after start", "MB", *both("started_mb"), MEMORY_GOAL),
        beside(f"memory after {PROMPT_WORDS} words", "MB", *both("prompt_mb")),
        beside(f"memory {LATER_S:g} s later", "MB", *both("later_mb")),
        compared("memory after start, ratio", "MB", *both("started_mb")),
    ]


def _measure(
    server_by_default: Callable[[Setting], AbstractContextManager[Server]], setting: Setting, number: int
) -> Footprint:
    with server_by_default(setting) as server:
        started_mb = resident_mb(server.pid)
        run_plan(server.port, [server.exactly(text(number, PROMPT_WORDS), 1)])
        prompt_mb = resident_mb(server.pid)
        time.sleep(LATER_S)
        return Footprint(server.start_s, started_mb, prompt_mb, resident_mb(server.pid))


async def _load_s(setting: Setting) -> float:
    started = time.perf_counter()
    engine = await Engine.load(setting.model)
    elapsed = time.perf_counter() - started
    await engine.close()
    return elapsed
