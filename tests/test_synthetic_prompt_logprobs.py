"""A prompt's log-probabilities on every kind of cache: those that its prefixes give for the next token."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from llmserve import Engine, ModelConfig, PromptToken, TokenLogprobs
from synthetic import KINDS, VOCABULARY, Kind, main_file, write_all

NUM_TOP = 3
NOISE = 2e-3
"""Of sums in another order, with caches of F32 and without flash attention."""
LENGTH = 90
"""Longer than the sliding window and the batch."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    write_all(folder)
    return folder


def config(*, unified_cells: int | None = None) -> ModelConfig:
    return ModelConfig(
        context_length=256,
        max_sequences=4,
        kv_cells=unified_cells,
        kv_layout="per_sequence" if unified_cells is None else "unified",
        batch_size=64,
        ubatch_size=32,
        threads=1,
        kv_type_k="f32",
        kv_type_v="f32",
        flash_attention=False,
    )


def prompt_of(number: int) -> list[int]:
    live = VOCABULARY.live
    return [live[(7 + number) * place * place % len(live)] for place in range(LENGTH)]


async def expected(engine: Engine, prompt: list[int], places: Sequence[int]) -> list[TokenLogprobs]:
    """What is reported for the token at each place when the tokens before it are the prompt."""
    found = []
    for place in places:
        made = await engine.generate(
            prompt[:place], max_tokens=1, logprobs=NUM_TOP, logit_bias={prompt[place]: 1e6}
        )
        (token,) = made.tokens
        assert token.id == prompt[place]
        assert token.logprobs is not None
        found.append(token.logprobs)
    return found


def check(scores: Sequence[PromptToken], prompt: list[int], direct: dict[int, TokenLogprobs]) -> None:
    assert [token.id for token in scores] == prompt
    assert (scores[0].logprobs, scores[0].rank) == (None, None)
    assert all(token.logprobs is not None for token in scores[1:])
    for place, known in direct.items():
        given = scores[place].logprobs
        assert given is not None
        assert given.logprob == pytest.approx(known.logprob, abs=NOISE)
        assert dict(given.top) == pytest.approx(dict(known.top), abs=NOISE)
        rank = scores[place].rank
        assert rank is not None
        likeliest = {id_: number for number, (id_, _) in enumerate(given.top, 1)}
        assert rank == likeliest.get(prompt[place], rank)
        assert (rank > NUM_TOP) == (prompt[place] not in likeliest)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_scored_as_its_prefixes_are(models: Path, kind: Kind) -> None:
    async def run() -> None:
        async with await Engine.load(models / main_file(kind), config()) as engine:
            prompt = prompt_of(0)
            places = range(1, LENGTH)
            direct = dict(zip(places, await expected(engine, prompt, places), strict=True))
            # The prefixes have left their cells: a warm cache.
            for step_size in (None, 1, 13):
                made = await engine.generate(
                    prompt, max_tokens=2, prompt_logprobs=NUM_TOP, prefill_step_size=step_size
                )
                check(made.prompt, prompt, direct)
                assert (made.usage.prompt_tokens, made.usage.cached_tokens) == (LENGTH, 0)
            only = await engine.generate(prompt, max_tokens=0, prompt_logprobs=NUM_TOP)
            check(only.prompt, prompt, direct)
            assert (only.text, only.finish_reason, only.usage.completion_tokens) == ("", "length", 0)

    asyncio.run(run())


@pytest.mark.parametrize("cells", [None, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_prompts_are_scored_beside_others(models: Path, kind: Kind, cells: int | None) -> None:
    """With 300 cells, sequences have to give way."""

    async def run() -> None:
        async with await Engine.load(models / main_file(kind), config(unified_cells=cells)) as engine:
            prompts = [prompt_of(number) for number in range(6)]
            places = (1, 2, 40, LENGTH - 1)
            direct = [
                dict(zip(places, await expected(engine, prompt, places), strict=True)) for prompt in prompts
            ]
            plain = [engine.generate(prompt, max_tokens=40, ignore_eos=True) for prompt in prompts]
            scored = [
                engine.generate(prompt, max_tokens=20, ignore_eos=True, prompt_logprobs=NUM_TOP)
                for prompt in prompts
            ]
            made = await asyncio.gather(*plain, *scored)
            for completion, prompt, known in zip(made[len(plain) :], prompts, direct, strict=True):
                check(completion.prompt, prompt, known)
                assert completion.usage.completion_tokens == 20
            assert all(not completion.prompt for completion in made[: len(plain)])

    asyncio.run(run())


def test_a_stream_gives_the_prompt_first(models: Path) -> None:
    async def run() -> None:
        async with await Engine.load(models / main_file("llama"), config()) as engine:
            async with engine.stream(prompt_of(1), max_tokens=3, prompt_logprobs=0) as stream:
                deltas = [delta async for delta in stream]
            assert stream.completion is not None
            is_prompt = [bool(delta.prompt) for delta in deltas]
            assert is_prompt == sorted(is_prompt, reverse=True)
            assert all(not delta.tokens for delta in deltas if delta.prompt)
            assert sum((delta.prompt for delta in deltas), ()) == stream.completion.prompt
            assert b"".join(token.bytes for token in stream.completion.prompt).decode()

    asyncio.run(run())
