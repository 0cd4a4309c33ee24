"""The same request gives the same text: again, with its prompt in the prefix cache, and beside others."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from llmserve import Completion, Engine, ModelConfig

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# About borders of tiles, and between them.
LENGTHS = (50, 63, 64, 65, 90, 127, 128, 129, 190, 200, 256, 257, 300, 321, 400, 450, 511, 513, 900, 2000)
# Lengths for the default model, whose prompts take seconds.
FEW_LENGTHS = (50, 200, 321)
TOKENS = 8
# Streams and other prompts run beside the one that is looked at.
NUM_BESIDE = 3
# Beyond this length, flash attention splits a lone row over the threads, with sums of 16-bit numbers: there
# company changes more, up to 0.3.
SPLIT_FROM = 256


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The engine is looked at, not the event loop, and prompts take a while."""
    return "asyncio"


@dataclass(frozen=True)
class Model:
    """A model and the prompts that it is given."""

    path: Path
    lengths: Sequence[int]
    vocabulary: range
    # Log-probabilities of the same tokens may differ so much, with cells from the cache and beside others.
    cached_epsilon: float
    beside_epsilon: float

    def tokens(self, seed: int, length: int) -> list[int]:
        return random.Random(seed).choices(self.vocabulary, k=length)  # noqa: S311 - no secret

    def prompts(self) -> list[list[int]]:
        """A prompt of token ids for each length; those of a few hundred tokens begin alike."""
        common = self.tokens(0, 180)
        own = {length: self.tokens(length, length) for length in self.lengths}
        return [
            (common + own[length])[:length] if 180 < length < 500 else own[length] for length in self.lengths
        ]


@pytest.fixture(params=["generated", pytest.param("default", marks=pytest.mark.model)])
def model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    """The generated model computes all lengths, the default one shows what that means for real weights.

    Products of weights that are not quantized, as those of the generated model, round by the number of rows.
    """
    if request.param == "generated":
        return Model(tiny_model, LENGTHS, range(3, 250), 1e-5, 1e-2)
    return Model(request.getfixturevalue("model_path"), FEW_LENGTHS, range(1000, 40_000), 0, 1e-3)


@asynccontextmanager
async def running(model: Model, *, deterministic: bool = False) -> AsyncIterator[Engine]:
    """An engine in which whole tiles are computed beside streams, however slow the machine is."""
    config = ModelConfig(
        max_sequences=NUM_BESIDE + 1,
        context_length=2048,
        max_stall_ms=60_000,
        deterministic=deterministic,
    )
    async with await Engine.load(model.path, config) as engine:
        yield engine


async def complete(engine: Engine, prompt: Sequence[int], *, cached: bool = False) -> Completion:
    return await engine.generate(
        list(prompt), max_tokens=TOKENS, temperature=0, logprobs=0, ignore_eos=True, cache_prompt=cached
    )


async def beside_others(engine: Engine, model: Model, prompt: Sequence[int], number: int) -> Completion:
    """Completes while streams run and other prompts come in."""
    done: list[Completion] = []
    async with anyio.create_task_group() as group:
        for one in range(NUM_BESIDE):
            group.start_soon(complete, engine, model.tokens(100 * number + one, 70 + one))
        done.append(await complete(engine, prompt))
    return done[0]


def drawn(completion: Completion) -> list[tuple[int, float]]:
    """Each token and its log-probability."""
    pairs = [(token.id, token.logprobs) for token in completion.tokens]
    return [(number, logprobs.logprob) for number, logprobs in pairs if logprobs is not None]


def largest_difference(one: Completion, other: Completion) -> float:
    """The largest difference of the log-probabilities, up to where the texts diverge: there, two tokens were
    equally likely."""
    largest = 0.0
    for (token, here), (second, there) in zip(drawn(one), drawn(other), strict=True):
        largest = max(largest, abs(here - there))
        if token != second:
            break
    return largest


async def test_again_and_from_the_prefix_cache(model: Model) -> None:
    async with running(model) as engine:
        for prompt in model.prompts():
            alone = await complete(engine, prompt)
            for _ in range(2):
                cached = await complete(engine, prompt, cached=True)
                difference = largest_difference(alone, cached)
                assert difference <= model.cached_epsilon, (len(prompt), cached.usage.cached_tokens)
                assert cached.text == alone.text


async def test_beside_others_log_probabilities_hardly_differ(model: Model) -> None:
    async with running(model) as engine:
        for number, prompt in enumerate(model.prompts()):
            if len(prompt) + TOKENS <= SPLIT_FROM:
                alone = await complete(engine, prompt)
                beside = await beside_others(engine, model, prompt, number)
                assert largest_difference(alone, beside) <= model.beside_epsilon, len(prompt)


async def test_beside_others_nothing_differs_where_each_is_computed_by_itself(model: Model) -> None:
    async with running(model, deterministic=True) as engine:
        for number, prompt in enumerate(model.prompts()[::3]):
            alone = await complete(engine, prompt)
            assert drawn(await beside_others(engine, model, prompt, number)) == drawn(alone)
            for _ in range(2):
                assert drawn(await complete(engine, prompt, cached=True)) == drawn(alone)
