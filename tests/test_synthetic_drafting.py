"""Drafting with the model's own head: the text never changes, and the counts are those of a simulator.

A fault in the draft context rarely shows in the text: it lowers the number of accepted drafts. So tests
compare exact counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from draft_models import (
    DRAFT_LENS,
    LENGTHS,
    NEVER_RIGHT,
    PROMPTS,
    Choice,
    Tokens,
    complete,
    config,
    counts,
    expected,
    ids,
    prompt,
    text_of,
)
from llmserve import Completion, Engine, NoDraftHeadError
from synthetic import DRAFT_HEAD_FILE, MISSING_HEAD_FILE, WRONG_HEAD_FILE, Drafted, main_file, simulate

pytestmark = pytest.mark.anyio

Given = tuple[Tokens, tuple[int, int]]

LAYOUTS: list[dict[str, Any]] = [
    {"kv_layout": "per_sequence"},
    {"kv_layout": "unified", "kv_cells": 4096},
    {"kv_type_k": "f32", "kv_type_v": "f32", "flash_attention": False},
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop library is enough for what the engine computes."""
    return "asyncio"


@pytest.fixture
def model(tiny_models: Path) -> Path:
    return tiny_models / DRAFT_HEAD_FILE


def in_full(drafted: Drafted) -> Given:
    return drafted.tokens, (drafted.num_drafted, drafted.num_accepted)


def simulated(number: int, draft_len: int) -> Given:
    return in_full(expected(PROMPTS[number], LENGTHS[number], draft_len))


def given(completion: Completion) -> Given:
    assert completion.finish_reason == "length"
    return ids(completion), counts(completion)


@pytest.mark.parametrize("file", [DRAFT_HEAD_FILE, WRONG_HEAD_FILE, MISSING_HEAD_FILE])
async def test_the_simulator_knows_the_text(tiny_models: Path, file: str) -> None:
    async with await Engine.load(tiny_models / file, config()) as engine:
        for tokens, length in zip(PROMPTS, LENGTHS, strict=True):
            completion = await complete(engine, tokens, length, logprobs=2)
            assert given(completion) == (text_of(tokens, length), (0, 0))
            tops = [token.logprobs.top for token in completion.tokens if token.logprobs is not None]
            assert min(best - second for (_, best), (_, second) in tops) > 1


@pytest.mark.parametrize("draft_len", DRAFT_LENS)
async def test_one_sequence(model: Path, draft_len: int) -> None:
    async with await Engine.load(model, config()) as engine:
        await engine.enable_mtp(draft_len, adaptive=False)
        for number, tokens in enumerate(PROMPTS):
            completion = await complete(engine, tokens, LENGTHS[number])
            assert given(completion) == simulated(number, draft_len), number


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("max_sequences", [4, 8])
@pytest.mark.parametrize("draft_len", DRAFT_LENS)
async def test_sequences_at_once(
    model: Path, draft_len: int, max_sequences: int, layout: dict[str, Any]
) -> None:
    """More requests than slots: prompts come in while others draft."""
    async with await Engine.load(model, config(max_sequences=max_sequences, **layout)) as engine:
        await engine.enable_mtp(draft_len, adaptive=False)
        requests = map(complete, [engine] * len(PROMPTS), PROMPTS, LENGTHS)
        for number, completion in enumerate(await asyncio.gather(*requests)):
            assert given(completion) == simulated(number, draft_len), number


@pytest.mark.parametrize(("kv_type", "draft_lens"), [("f16", (0, 1, 2, 3, 5)), ("f32", (0, 3))])
async def test_twenty_long_texts(model: Path, kv_type: str, draft_lens: Sequence[int]) -> None:
    asked = [prompt(500 + number, 10 + 5 * number) for number in range(20)]
    async with await Engine.load(model, config(kv_type_k=kv_type, kv_type_v=kv_type)) as engine:
        for draft_len in draft_lens:
            drafting: Choice = False
            if draft_len > 0:
                drafting = await engine.open_drafting("mtp", draft_len, adaptive=False)
            requests = (complete(engine, tokens, 256, drafting, cache_prompt=False) for tokens in asked)
            for tokens, completion in zip(asked, await asyncio.gather(*requests), strict=True):
                assert given(completion) == in_full(expected(tokens, 256, draft_len))


async def test_drafts_that_a_full_batch_has_no_room_for(model: Path) -> None:
    """Eight sequences with eight guesses each are 72 rows."""
    async with await Engine.load(model, config(batch_size=40, ubatch_size=32)) as engine:
        await engine.enable_mtp(8, adaptive=False)
        requests = map(complete, [engine] * len(PROMPTS), PROMPTS, LENGTHS)
        for number, completion in enumerate(await asyncio.gather(*requests)):
            assert ids(completion) == text_of(PROMPTS[number], LENGTHS[number])
            assert 0 < completion.usage.accepted_tokens <= completion.usage.draft_tokens


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_prompts_that_join_drafting_sequences(model: Path, layout: dict[str, Any]) -> None:
    joined = prompt(100, 300), prompt(101, 7)

    async def stream(engine: Engine, number: int, running: asyncio.Event) -> Completion:
        asked = engine.stream(PROMPTS[number], add_special=False, max_tokens=LENGTHS[number])
        async with asked as deltas:
            async for _ in deltas:
                running.set()
            return await deltas.result()

    async with await Engine.load(model, config(**layout)) as engine:
        await engine.enable_mtp(3, adaptive=False)
        started = {number: asyncio.Event() for number in (3, 5, 7)}
        running = [asyncio.create_task(stream(engine, number, event)) for number, event in started.items()]
        await asyncio.gather(*(event.wait() for event in started.values()))
        late = await asyncio.gather(*(complete(engine, tokens, 50) for tokens in joined))
        early = await asyncio.gather(*running)
    assert [given(one) for one in early] == [simulated(number, 3) for number in started]
    assert [given(one) for one in late] == [in_full(expected(tokens, 50, 3)) for tokens in joined]


async def test_some_draft_and_some_do_not(model: Path) -> None:
    """In one batch: no drafts, and drafts of several lengths."""
    async with await Engine.load(model, config()) as engine:
        await engine.enable_mtp(2, adaptive=False)
        longer = await engine.open_drafting("mtp", draft_len=8, adaptive=False)
        choices: list[tuple[Choice, int]] = [(None, 2), (False, 0), (longer, 8)]
        requests = [
            complete(engine, tokens, LENGTHS[number], choices[number % 3][0])
            for number, tokens in enumerate(PROMPTS)
        ]
        for number, completion in enumerate(await asyncio.gather(*requests)):
            assert given(completion) == simulated(number, choices[number % 3][1]), number


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4])
async def test_short_outputs(model: Path, max_tokens: int) -> None:
    """A draft has no more tokens than the output would have after the certain one."""
    tokens = prompt(7, 40)
    async with await Engine.load(model, config()) as engine:
        await engine.enable_mtp(3, adaptive=False)
        completion = await complete(engine, tokens, max_tokens)
        assert given(completion) == in_full(expected(tokens, max_tokens, 3))
        assert completion.usage.draft_tokens == [0, 0, 0, 1, 3][max_tokens] or max_tokens > 3


async def test_a_head_that_is_never_right(tiny_models: Path) -> None:
    async with await Engine.load(tiny_models / WRONG_HEAD_FILE, config()) as engine:
        await engine.enable_mtp(3, adaptive=False)
        requests = map(complete, [engine] * len(PROMPTS), PROMPTS, LENGTHS)
        completions = await asyncio.gather(*requests)
    for tokens, length, completion in zip(PROMPTS, LENGTHS, completions, strict=True):
        assert given(completion) == in_full(simulate(NEVER_RIGHT, tokens, length, 3))
        assert completion.usage.accepted_tokens == 0


async def test_adaptive_drafts_change_no_text(tiny_models: Path) -> None:
    for file in (DRAFT_HEAD_FILE, WRONG_HEAD_FILE):
        async with await Engine.load(tiny_models / file, config()) as engine:
            await engine.enable_mtp(8)
            requests = map(complete, [engine] * len(PROMPTS), PROMPTS, LENGTHS)
            for number, completion in enumerate(await asyncio.gather(*requests)):
                assert ids(completion) == text_of(PROMPTS[number], LENGTHS[number])
                assert 0 <= completion.usage.accepted_tokens <= completion.usage.draft_tokens


@pytest.mark.parametrize("file", [MISSING_HEAD_FILE, main_file("llama"), main_file("hybrid")])
async def test_models_without_a_head(tiny_models: Path, file: str) -> None:
    """The first one's metadata announces a head, but its tensors are not there."""
    async with await Engine.load(tiny_models / file, config()) as engine:
        assert not engine.info.has_draft_head
        with pytest.raises(NoDraftHeadError):
            await engine.enable_mtp()
        completion = await complete(engine, PROMPTS[0], 8)
        assert counts(completion) == (0, 0)


async def test_a_full_context_ends_a_draft(model: Path) -> None:
    tokens = prompt(8, 50)
    async with await Engine.load(model, config(context_length=64)) as engine:
        baseline = await engine.generate(tokens, add_special=False)
        await engine.enable_mtp(8, adaptive=False)
        # The cells that are there were computed without a draft context.
        drafted = await engine.generate(tokens, add_special=False, cache_prompt=False)
    assert ids(drafted) == ids(baseline) == text_of(tokens, len(baseline.tokens))
    assert drafted.finish_reason == baseline.finish_reason == "length"
    assert drafted.usage.draft_tokens > 0


async def test_a_pool_that_is_too_small_preempts_and_changes_no_token(model: Path) -> None:
    """Whether sequences meet depends on when they reach the engine, so rounds are repeated until they do."""
    options = config(context_length=256, max_sequences=4, kv_layout="unified", kv_cells=256)
    tokens = [prompt(number, 60) for number in range(4)]
    async with await Engine.load(model, options) as engine:
        await engine.enable_mtp(3, adaptive=False)
        for _ in range(20):
            requests = (complete(engine, one, 150) for one in tokens)
            completions = await asyncio.gather(*requests)
            assert [ids(one) for one in completions] == [text_of(one, 150) for one in tokens]
            if engine.stats().preemptions:
                break
        stats = engine.stats()
    assert stats.preemptions > 0
    assert stats.accepted_tokens > 0


async def test_stats_are_the_sum_of_the_requests(
    model: Path, eventually: Callable[[Callable[[], bool]], Awaitable[None]]
) -> None:
    async with await Engine.load(model, config()) as engine:
        assert engine.stats().num_draft_users == 0
        await engine.enable_mtp(3, adaptive=False)
        assert engine.stats().num_draft_users == 1
        requests = map(complete, [engine] * len(PROMPTS), PROMPTS, LENGTHS)
        completions = await asyncio.gather(*requests)
        stats = engine.stats()
        assert stats.draft_tokens == sum(one.usage.draft_tokens for one in completions)
        assert stats.accepted_tokens == sum(one.usage.accepted_tokens for one in completions)
        assert stats.acceptance == stats.accepted_tokens / stats.draft_tokens
        assert stats.draft_seconds > 0
        assert len(PROMPTS) < stats.steps < sum(LENGTHS)
        engine.disable_drafting()
        await eventually(lambda: engine.stats().num_draft_users == 0)
        off = await complete(engine, PROMPTS[5], LENGTHS[5])
        assert given(off) == (text_of(PROMPTS[5], LENGTHS[5]), (0, 0))
        await engine.enable_mtp(3, adaptive=False)
        on = await complete(engine, PROMPTS[6], LENGTHS[6], cache_prompt=False)
        assert given(on) == simulated(6, 3)
