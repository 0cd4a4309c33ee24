"""What a JSON Schema costs or gains: tokens a second of constrained output against free text."""

from __future__ import annotations

import asyncio
import json
import time

from llmserve import Engine, ModelConfig, SamplingParams

from .harness import BenchError, Figure, Goal, Setting, measured
from .prompts import words

CELLS = 1024
RECORDS = 12
MAX_TOKENS = 600
GOALS = {1: Goal(1.2, at_most=False), 8: Goal(0.97, at_most=False)}
SCHEMA = json.dumps(
    {
        "type": "array",
        "minItems": RECORDS,
        "maxItems": RECORDS,
        "items": {
            "type": "object",
            "properties": {
                "identifier": {"type": "integer", "minimum": 0, "maximum": 9999},
                "product_name": {"type": "string", "maxLength": 16},
                "category": {"enum": ["tools", "garden", "kitchen", "office"]},
                "in_stock": {"type": "boolean"},
            },
            "required": ["identifier", "product_name", "category", "in_stock"],
            "additionalProperties": False,
        },
    }
)


def run(setting: Setting) -> list[Figure]:
    """Constrained and free runs take turns; each free text has as many tokens as its document."""
    return asyncio.run(_run(setting))


async def _run(setting: Setting) -> list[Figure]:
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=max(GOALS),
        context_length=CELLS,
        kv_cells=CELLS * max(GOALS),
        kv_layout=setting.kv_layout,
    )
    figures = []
    async with await Engine.load(setting.model, config) as engine:
        await _constrained(engine, 1, 0)  # compiles the schema
        for streams, goal in GOALS.items():
            ratios, forced = [], []
            for number in range(setting.runs):
                tokens, took, steps = await _constrained(engine, streams, number)
                ratios.append(await _free(engine, number, tokens) / took)
                forced.append(max(tokens) / steps)
            name = f"{streams} stream{'s' if streams > 1 else ''}"
            figures.append(measured(f"{name}: constrained / free", "ratio", ratios, goal))
            figures.append(measured(f"{name}: tokens of the longest document per step", "tokens", forced))
    return figures


def _prompts(streams: int, number: int) -> list[str]:
    topics = [" ".join(words(100 * number + stream, 3)) for stream in range(streams)]
    return [f"A list of {RECORDS} products about {topic} as JSON:\n" for topic in topics]


async def _constrained(engine: Engine, streams: int, number: int) -> tuple[list[int], float, int]:
    """Tokens of each document, seconds, steps."""
    params = SamplingParams(json_schema=SCHEMA, max_tokens=MAX_TOKENS)
    before = engine.stats().steps
    started = time.perf_counter()
    done = await asyncio.gather(
        *(engine.generate(prompt, params, cache_prompt=False) for prompt in _prompts(streams, number))
    )
    took = time.perf_counter() - started
    for one in done:
        if one.finish_reason != "stop" or len(json.loads(one.text)) != RECORDS:
            raise BenchError(f"a document ended by {one.finish_reason}")
    return [one.usage.completion_tokens for one in done], took, engine.stats().steps - before


async def _free(engine: Engine, number: int, tokens: list[int]) -> float:
    """Seconds for the given number of tokens of each free text."""
    params = SamplingParams(ignore_eos=True, cache_prompt=False)
    prompts = _prompts(len(tokens), number)
    started = time.perf_counter()
    await asyncio.gather(
        *(
            engine.generate(prompt, params, max_tokens=count)
            for prompt, count in zip(prompts, tokens, strict=True)
        )
    )
    return time.perf_counter() - started
