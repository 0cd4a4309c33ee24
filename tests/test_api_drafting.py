"""How requests are told to draft, with a model that has no head of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import loaded
from llmserve import (
    Completion,
    Drafting,
    Engine,
    EngineClosedError,
    InvalidParameterError,
    ModelConfig,
    NoDraftHeadError,
    RequestError,
    SyncEngine,
)

pytestmark = pytest.mark.anyio

CONFIG = ModelConfig(context_length=512, max_sequences=4, threads=1)
REPEATING = [20, 21, 22, 23, 24, 25, 26, 27] * 6
BAD_LENGTHS = [0, 9, -1, 2.5, True, "3", None]


@pytest.fixture(scope="module")
def tiny(tiny_model: Path) -> Iterator[Engine]:
    with loaded(tiny_model, CONFIG) as engine:
        yield engine


@pytest.fixture(autouse=True)
def off_again(tiny: Engine) -> Iterator[None]:
    yield
    tiny.disable_drafting()


def default(engine: Engine) -> Drafting | None:
    return engine.drafting


async def greedy(engine: Engine, **arguments: Any) -> Completion:
    return await engine.generate(REPEATING, max_tokens=24, ignore_eos=True, cache_prompt=False, **arguments)


async def test_a_model_without_a_head_says_so_and_goes_on(tiny: Engine) -> None:
    before = await greedy(tiny)
    assert not tiny.info.has_draft_head
    with pytest.raises(NoDraftHeadError, match="has no head for multi-token prediction") as raised:
        await tiny.enable_mtp()
    assert isinstance(raised.value, RequestError)
    assert raised.value.code == "no_draft_head"
    with pytest.raises(NoDraftHeadError):
        await tiny.open_drafting("mtp")
    assert tiny.drafting is None
    assert tiny.stats().num_draft_users == 0
    after = await greedy(tiny)
    assert after.text == before.text
    assert after.usage.draft_tokens == after.usage.accepted_tokens == 0


async def test_a_failed_enable_leaves_what_was_enabled(tiny: Engine) -> None:
    await tiny.enable_prompt_lookup(draft_len=5)
    former = tiny.drafting
    with pytest.raises(NoDraftHeadError):
        await tiny.enable_mtp()
    assert tiny.drafting is former
    assert former is not None
    assert not former.is_closed


@pytest.mark.parametrize("draft_len", BAD_LENGTHS)
async def test_a_draft_length_is_checked_first(tiny: Engine, draft_len: Any) -> None:
    for enable in (tiny.enable_mtp, tiny.enable_prompt_lookup):
        with pytest.raises(InvalidParameterError, match=r"^draft_len: must be") as raised:
            await enable(draft_len=draft_len)
        assert raised.value.field == "draft_len"
        assert repr(draft_len) in str(raised.value)
    assert tiny.drafting is None


async def test_the_other_options_are_checked(tiny: Engine) -> None:
    method: Any = "medusa"
    with pytest.raises(InvalidParameterError, match=r"^method: must be 'mtp' or 'prompt_lookup', got"):
        await tiny.open_drafting(method)
    adaptive: Any = 1
    with pytest.raises(InvalidParameterError, match=r"^adaptive: must be True or False, got 1"):
        await tiny.enable_prompt_lookup(adaptive=adaptive)
    for wrong in (True, "mtp", 3):
        drafting: Any = wrong
        with pytest.raises(InvalidParameterError, match=r"^drafting: must be a `Drafting`"):
            tiny.stream(REPEATING, drafting=drafting)


async def test_the_text_is_the_same_with_prompt_lookup(tiny: Engine) -> None:
    baseline = await greedy(tiny)
    sampled = await greedy(tiny, temperature=0.8, seed=11)
    async with await tiny.open_drafting("prompt_lookup", draft_len=4, adaptive=False) as drafting:
        assert (drafting.method, drafting.draft_len, drafting.adaptive) == ("prompt_lookup", 4, False)
        assert (await greedy(tiny, drafting=drafting)).text == baseline.text
        assert (await greedy(tiny, temperature=0.8, seed=11, drafting=drafting)).text == sampled.text
        async with tiny.stream(REPEATING, max_tokens=24, ignore_eos=True, drafting=drafting) as stream:
            assert "".join([delta.text async for delta in stream]) == baseline.text
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        arguments: dict[str, Any] = {"max_tokens": 60, "temperature": 0.8, "seed": 3}
        document = await tiny.generate_json(REPEATING, schema, **arguments)
        assert await tiny.generate_json(REPEATING, schema, drafting=drafting, **arguments) == document


async def test_sessions_and_chat_prompts_take_a_drafting(tiny: Engine) -> None:
    prompt = await tiny.chat_prompt([{"role": "user", "content": "one two one two one two"}])
    texts = []
    drafting = await tiny.open_drafting("prompt_lookup", adaptive=False)
    for choice in (False, drafting):
        session = tiny.session()
        first = await tiny.generate(
            prompt, session=session, append=False, templated=True, drafting=choice, max_tokens=12
        )
        turn = await tiny.next_turn("and again one two one two")
        second = await tiny.generate("", session=session, append=turn, drafting=choice, max_tokens=12)
        texts.append((first.text, second.text))
    assert texts[0] == texts[1]


async def test_the_default_is_replaced_and_switched_off(tiny: Engine) -> None:
    assert default(tiny) is None
    await tiny.enable_prompt_lookup(draft_len=2, adaptive=False)
    first = default(tiny)
    await tiny.enable_prompt_lookup()
    second = default(tiny)
    assert first is not None
    assert second is not None
    assert (second.method, second.draft_len, second.adaptive) == ("prompt_lookup", 3, True)
    assert (first.is_closed, second.is_closed) == (True, False)
    tiny.disable_drafting()
    assert default(tiny) is None
    assert second.is_closed
    tiny.disable_drafting()


async def test_a_closed_drafting_is_refused(tiny: Engine) -> None:
    drafting = await tiny.open_drafting("prompt_lookup")
    running = tiny.stream(REPEATING, max_tokens=24, ignore_eos=True, drafting=drafting)
    drafting.close()
    drafting.close()
    with pytest.raises(InvalidParameterError, match=r"^drafting: must not be closed") as raised:
        await greedy(tiny, drafting=drafting)
    assert raised.value.field == "drafting"
    assert (await running.result()).usage.completion_tokens == 24
    assert "closed" in repr(drafting)


async def test_a_closed_engine_opens_nothing(tiny_model: Path) -> None:
    engine = await Engine.load(tiny_model, CONFIG)
    await engine.enable_prompt_lookup()
    drafting = await engine.open_drafting("prompt_lookup")
    default = engine.drafting
    await engine.close()
    assert default is not None
    assert default.is_closed
    for method in ("mtp", "prompt_lookup"):
        with pytest.raises(EngineClosedError):
            await engine.open_drafting(method)
    with pytest.raises(EngineClosedError):
        await engine.generate(REPEATING, drafting=drafting)
    drafting.close()


def test_the_engine_without_an_event_loop_drafts_too(tiny_model: Path) -> None:
    with SyncEngine.load(tiny_model, CONFIG) as engine:
        arguments: dict[str, Any] = {"max_tokens": 24, "ignore_eos": True}
        baseline = engine.generate(REPEATING, **arguments).text
        with pytest.raises(NoDraftHeadError):
            engine.enable_mtp()
        with pytest.raises(InvalidParameterError, match="draft_len"):
            engine.enable_prompt_lookup(draft_len=9)
        with engine.open_drafting("prompt_lookup", adaptive=False) as drafting:
            assert engine.generate(REPEATING, drafting=drafting, **arguments).text == baseline
            with engine.stream(REPEATING, drafting=drafting, **arguments) as stream:
                assert "".join(delta.text for delta in stream) == baseline
            document = engine.generate_json(REPEATING, max_tokens=40)
            assert engine.generate_json(REPEATING, max_tokens=40, drafting=drafting) == document
        engine.enable_prompt_lookup()
        assert isinstance(engine.drafting, Drafting)
        assert engine.generate(REPEATING, drafting=False, **arguments).text == baseline
        assert engine.generate(REPEATING, **arguments).text == baseline
        engine.disable_drafting()
        assert engine.drafting is None


async def test_stats_count_drafts(tiny_model: Path) -> None:
    async with await Engine.load(tiny_model, CONFIG) as engine:
        await greedy(engine)
        assert engine.stats().acceptance is None
        async with await engine.open_drafting("prompt_lookup", adaptive=False) as drafting:
            usages = [(await greedy(engine, drafting=drafting)).usage for _ in range(2)]
        stats = engine.stats()
        assert stats.draft_tokens == sum(usage.draft_tokens for usage in usages) > 0
        assert stats.accepted_tokens == sum(usage.accepted_tokens for usage in usages) > 0
        assert stats.acceptance == stats.accepted_tokens / stats.draft_tokens
        # Prompt lookup has no draft context to spend time in.
        assert stats.draft_seconds == 0
