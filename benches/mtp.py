"""What drafting with a model's own head (MTP) gains or costs: the same engine with and without, in turns.

The model is generated: bound by memory, with a head that is right after nine of ten tokens, or never. In the
result `peer` is the engine without drafts.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llmserve import Drafting, Engine, ModelConfig

from .harness import BenchError, Figure, Goal, Setting, cache_dir, compared, interleave
from .streams import Trace, decode_rate

SEQUENCES = (1, 2, 4, 8)
OFTEN_RIGHT, NEVER_RIGHT = 0.9, 0.0
TOKENS = 128
PROMPT_TOKENS = 32
CELLS = 256
GOAL = Goal(0.98, at_most=False)

# Printable ASCII, which are live tokens of the model.
FIRST_TOKEN, LAST_TOKEN = 33, 126
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Way:
    """How the requests of a run draft."""

    draft_len: int
    adaptive: bool = False

    def __str__(self) -> str:
        return f"adaptive, at most {self.draft_len}" if self.adaptive else f"draft length {self.draft_len}"


FIXED = tuple(Way(length) for length in (1, 2, 3, 5, 8))
ADAPTIVE = (Way(3, adaptive=True),)


def run(setting: Setting) -> list[Figure]:
    """Fixed draft lengths show what each gives; adaptive drafting must never be slower than none."""
    return [
        *_compared(setting, OFTEN_RIGHT, FIXED, None),
        *_compared(setting, OFTEN_RIGHT, ADAPTIVE, GOAL),
        *_compared(setting, NEVER_RIGHT, ADAPTIVE, GOAL),
    ]


def _compared(setting: Setting, agreement: float, ways: tuple[Way, ...], goal: Goal | None) -> list[Figure]:
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=max(SEQUENCES),
        context_length=CELLS,
        kv_cells=CELLS * max(SEQUENCES),
        kv_layout=setting.kv_layout,
    )
    engine = asyncio.run(Engine.load(_model(agreement), config))
    figures = []
    for count in SEQUENCES:
        sides: dict[str, Callable[[int], float]] = {
            str(way or "off"): partial(_run, engine, count, way) for way in (None, *ways)
        }
        results = interleave(setting.runs, sides)
        for way in ways:
            name = f"{count} seq., right {agreement:.0%}, {way}"
            figures.append(compared(name, "tok/s", results[str(way)], results["off"], goal))
    asyncio.run(engine.close())
    return figures


def _run(engine: Engine, count: int, way: Way | None, number: int) -> float:
    return asyncio.run(_rate(engine, count, way, number))


async def _rate(engine: Engine, count: int, way: Way | None, number: int) -> float:
    """Tokens a second of `count` streams. Without a way to draft there is no draft context either."""
    prompts = [_prompt(100 * number + stream) for stream in range(count)]
    if way is None:
        traces = await asyncio.gather(*(_trace(engine, prompt, None) for prompt in prompts))
    else:
        async with await engine.open_drafting("mtp", way.draft_len, way.adaptive) as drafting:
            traces = await asyncio.gather(*(_trace(engine, prompt, drafting) for prompt in prompts))
    return decode_rate(traces, TOKENS // 4)


async def _trace(engine: Engine, prompt: list[int], drafting: Drafting | None) -> Trace:
    trace = Trace(time.perf_counter())
    stream = engine.stream(
        prompt, max_tokens=TOKENS, ignore_eos=True, cache_prompt=False, drafting=drafting or False
    )
    async for delta in stream:
        trace.add(time.perf_counter(), len(delta.tokens))
    return trace


def _prompt(seed: int) -> list[int]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    return draw.choices(range(FIRST_TOKEN, LAST_TOKEN + 1), k=PROMPT_TOKENS)


def _model(agreement: float) -> Path:
    """The generated model, kept in the cache until its generator changes."""
    digest = hashlib.sha256()
    for source in sorted((ROOT / "tests" / "synthetic").glob("*.py")):
        digest.update(source.read_bytes())
    name = f"memory-bound-{agreement:g}"
    path = cache_dir() / "benches" / f"{name}-{digest.hexdigest()[:12]}.gguf"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{name}-*.gguf"):
            old.unlink()
        command = [sys.executable, "-m", "tests.synthetic", "memory_bound", str(path)]
        done = subprocess.run([*command, "--agreement", str(agreement)], cwd=ROOT, check=False)
        if done.returncode != 0:
            raise BenchError("the model could not be generated")
    return path
