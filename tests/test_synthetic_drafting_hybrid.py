"""Drafting on a model whose recurrent state decides about its text: rejected guesses leave nothing in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from draft_models import DRAFT_LENS, LENGTHS, PROMPTS, Choice, Tokens, complete, config, counts, ids, prompt
from llmserve import Completion, Engine
from synthetic import HYBRID_HEAD_FILE, greedy, rules, simulate

pytestmark = pytest.mark.anyio

LANGUAGE = rules(1.0, remembers=True)
LAYOUTS: list[dict[str, Any]] = [
    {"kv_layout": "per_sequence"},
    {"kv_layout": "unified", "kv_cells": 4096},
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop library is enough for what the engine computes."""
    return "asyncio"


@pytest.fixture
def model(tiny_models: Path) -> Path:
    return tiny_models / HYBRID_HEAD_FILE


def is_as_simulated(completion: Completion, tokens: Tokens, draft_len: int) -> bool:
    simulated = simulate(LANGUAGE, tokens, len(completion.tokens), draft_len)
    return (ids(completion), *counts(completion)) == (
        simulated.tokens,
        simulated.num_drafted,
        simulated.num_accepted,
    )


async def test_the_simulator_knows_the_text(model: Path) -> None:
    """It looks back through the memory: equal ends that the attention sees do not make equal texts."""
    async with await Engine.load(model, config()) as engine:
        assert engine.info.is_recurrent
        assert engine.info.has_draft_head
        for tokens, length in zip(PROMPTS, LENGTHS, strict=True):
            assert ids(await complete(engine, tokens, length)) == greedy(LANGUAGE, tokens, length)
    end = prompt(1, 60)[-6:]
    assert len({tuple(greedy(LANGUAGE, [*prompt(number, 40), *end], 40)) for number in range(16)}) > 1


@pytest.mark.parametrize("draft_len", DRAFT_LENS)
async def test_one_sequence(model: Path, draft_len: int) -> None:
    async with await Engine.load(model, config(max_sequences=1)) as engine:
        await engine.enable_mtp(draft_len, adaptive=False)
        for number, tokens in enumerate(PROMPTS):
            completion = await complete(engine, tokens, LENGTHS[number])
            assert is_as_simulated(completion, tokens, draft_len), number


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("draft_len", DRAFT_LENS)
async def test_sequences_at_once(model: Path, draft_len: int, layout: dict[str, Any]) -> None:
    """More requests than slots: prompts come in while others draft."""
    async with await Engine.load(model, config(max_sequences=4, **layout)) as engine:
        await engine.enable_mtp(draft_len, adaptive=False)
        for _ in range(2):
            requests = [
                complete(engine, tokens, length, cache_prompt=False)
                for tokens, length in zip(PROMPTS, LENGTHS, strict=True)
            ]
            for number, completion in enumerate(await asyncio.gather(*requests)):
                assert is_as_simulated(completion, PROMPTS[number], draft_len), number


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_some_draft_and_some_do_not(model: Path, layout: dict[str, Any]) -> None:
    async with await Engine.load(model, config(**layout)) as engine:
        drafting = await engine.open_drafting("mtp", draft_len=5, adaptive=False)
        requests = [
            complete(engine, tokens, LENGTHS[number], drafting if number % 2 else False)
            for number, tokens in enumerate(PROMPTS)
        ]
        for number, completion in enumerate(await asyncio.gather(*requests)):
            assert is_as_simulated(completion, PROMPTS[number], 5 if number % 2 else 0), number


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_slots_that_come_and_go(model: Path, layout: dict[str, Any]) -> None:
    """Requests of all lengths, some dropped half way, one after the other in ten tasks for eight slots."""
    async with await Engine.load(model, config(**layout)) as engine:
        draftings = [await engine.open_drafting("mtp", length, adaptive=False) for length in (1, 3, 8)]
        waiting = list(range(120))

        async def ask(number: int) -> None:
            tokens = prompt(600 + number, 1 + 37 * number % 150)
            length = 10 + 13 * number % 50
            if number % 5 == 4:
                async with engine.stream(
                    tokens, add_special=False, max_tokens=length, drafting=draftings[number % 3]
                ) as stream:
                    seen = 0
                    async for delta in stream:
                        seen += len(delta.tokens)
                        if seen >= length // 2:
                            break
                return
            choices: list[tuple[Choice, int]] = [*zip(draftings, (1, 3, 8), strict=True), (False, 0)]
            choice, draft_len = choices[number % 4]
            completion = await complete(engine, tokens, length, choice, cache_prompt=False)
            assert is_as_simulated(completion, tokens, draft_len), number

        async def work() -> None:
            while waiting:
                await ask(waiting.pop())

        await asyncio.gather(*(work() for _ in range(10)))


async def test_a_session(model: Path) -> None:
    async with await Engine.load(model, config()) as engine:
        await engine.enable_mtp(4, adaptive=False)
        session = engine.session()
        whole: Tokens = []
        for turn in range(4):
            asked = prompt(500 + turn, 14)
            answer = await complete(engine, asked, 30, session=session)
            whole += asked
            assert ids(answer) == greedy(LANGUAGE, whole, 30)
            assert answer.usage.draft_tokens > answer.usage.accepted_tokens > 0
            whole += ids(answer)


async def test_dropped_streams_and_stop_tokens(model: Path) -> None:
    """Ends inside a draft leave states behind that later prompts must not go on from."""
    async with await Engine.load(model, config(max_sequences=2)) as engine:
        await engine.enable_mtp(5, adaptive=False)
        for number, tokens in enumerate(PROMPTS):
            output = greedy(LANGUAGE, tokens, 40)
            ended = await complete(engine, tokens, 40, stop_token_ids=[output[10 + number]])
            kept = ids(ended)
            assert kept == output[: len(kept)]
            async with engine.stream(tokens, add_special=False, max_tokens=100) as stream:
                async for _ in stream:
                    break
            going_on = [*tokens, *kept]
            assert ids(await complete(engine, going_on, 30)) == greedy(LANGUAGE, going_on, 30)


async def test_prompt_lookup(model: Path) -> None:
    """Its guesses are rejected often here; the state goes back each time."""
    async with await Engine.load(model, config(max_sequences=4)) as engine:
        await engine.enable_prompt_lookup(draft_len=8, adaptive=False)
        asked = [[*tokens, *tokens, *tokens[:7]] for tokens in PROMPTS]
        done = await asyncio.gather(*(complete(engine, tokens, 60) for tokens in asked))
        assert [ids(one) for one in done] == [greedy(LANGUAGE, tokens, 60) for tokens in asked]
        assert sum(one.usage.draft_tokens for one in done) > 0
