"""The same request gives the same text: again, with its prompt in the prefix cache, and beside others."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from llmserve import Completion, Engine, ModelConfig

pytestmark = [pytest.mark.anyio, pytest.mark.model]

LENGTHS = (50, 63, 64, 65, 90, 127, 128, 129, 190, 200, 256, 257, 300, 321, 400, 450, 511, 513, 640, 900)
TOKENS = 8
# Streams and other prompts run beside the one that is looked at.
NUM_BESIDE = 3
# Log-probabilities of the same tokens, alone and beside others.
EPSILON = 1e-3
# Beyond so many tokens flash attention splits a lone row over the threads, with sums of 16-bit numbers: there
# company changes more, up to 0.3.
SPLIT_FROM = 256


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The engine is looked at, not the event loop, and prompts take a while."""
    return "asyncio"


def tokens(seed: int, length: int) -> list[int]:
    return random.Random(seed).choices(range(1000, 40_000), k=length)  # noqa: S311 - no secret


def prompts() -> list[list[int]]:
    """A prompt of token ids for each length; those of a few hundred tokens begin alike."""
    common = tokens(0, 180)
    own = {length: tokens(length, length) for length in LENGTHS}
    return [(common + own[length])[:length] if 180 < length < 500 else own[length] for length in LENGTHS]


@asynccontextmanager
async def running(model: Path, *, deterministic: bool = False) -> AsyncIterator[Engine]:
    """An engine in which whole tiles are computed beside streams, however slow the machine is."""
    config = ModelConfig(
        max_sequences=NUM_BESIDE + 1,
        context_length=1024,
        max_stall_ms=60_000,
        deterministic=deterministic,
    )
    async with await Engine.load(model, config) as engine:
        yield engine


async def complete(engine: Engine, prompt: Sequence[int], *, cached: bool = False) -> Completion:
    return await engine.generate(
        list(prompt), max_tokens=TOKENS, temperature=0, logprobs=0, ignore_eos=True, cache_prompt=cached
    )


async def beside_others(engine: Engine, prompt: Sequence[int], number: int) -> Completion:
    """Completes while streams run and other prompts come in."""
    done: list[Completion] = []
    async with anyio.create_task_group() as group:
        for one in range(NUM_BESIDE):
            group.start_soon(complete, engine, tokens(100 * number + one, 70 + one))
        done.append(await complete(engine, prompt))
    return done[0]


def drawn(completion: Completion) -> list[tuple[int, float]]:
    """Each token and its log-probability."""
    pairs = [(token.id, token.logprobs) for token in completion.tokens]
    return [(number, logprobs.logprob) for number, logprobs in pairs if logprobs is not None]


def largest_difference(one: Completion, other: Completion) -> float:
    """Of the log-probabilities as far as the texts are equal; where they part, two tokens were as likely."""
    largest = 0.0
    for (token, here), (second, there) in zip(drawn(one), drawn(other), strict=True):
        largest = max(largest, abs(here - there))
        if token != second:
            break
    return largest


async def test_again_and_from_the_prefix_cache(model_path: Path) -> None:
    async with running(model_path) as engine:
        for prompt in prompts():
            alone = await complete(engine, prompt)
            assert drawn(await complete(engine, prompt)) == drawn(alone)
            for _ in range(2):
                cached = await complete(engine, prompt, cached=True)
                assert drawn(cached) == drawn(alone), (len(prompt), cached.usage.cached_tokens)


async def test_beside_others_log_probabilities_hardly_differ(model_path: Path) -> None:
    async with running(model_path) as engine:
        for number, prompt in enumerate(prompts()):
            if len(prompt) + TOKENS <= SPLIT_FROM:
                alone = await complete(engine, prompt)
                beside = await beside_others(engine, prompt, number)
                assert largest_difference(alone, beside) <= EPSILON, len(prompt)


async def test_beside_others_nothing_differs_where_each_is_computed_by_itself(model_path: Path) -> None:
    async with running(model_path, deterministic=True) as engine:
        for number, prompt in enumerate(prompts()[::3]):
            alone = await complete(engine, prompt)
            assert drawn(await beside_others(engine, prompt, number)) == drawn(alone)
            assert drawn(await complete(engine, prompt, cached=True)) == drawn(alone)
            assert drawn(await complete(engine, prompt, cached=True)) == drawn(alone)
