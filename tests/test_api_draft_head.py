"""Drafting with a model's own head: who holds the draft context, and until when."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from draft_models import config, is_as_simulated, prompt
from engines import loaded
from llmserve import Completion, Drafting, Engine, EngineClosedError, InvalidParameterError, SyncEngine
from loops import Eventually
from synthetic import DRAFT_HEAD_FILE, MISSING_HEAD_FILE

pytestmark = pytest.mark.anyio

PROMPT = prompt(3, 24)
MAX_TOKENS = 40
ENDLESS = 400


@pytest.fixture(scope="module")
def model(tiny_models: Path) -> Path:
    return tiny_models / DRAFT_HEAD_FILE


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with loaded(model, config()) as engine:
        yield engine


@pytest.fixture(autouse=True)
def idle_after(engine: Engine, eventually: Eventually) -> Iterator[None]:
    """Whatever a test has opened, nothing of it is left in the engine."""
    yield
    engine.disable_drafting()
    gc.collect()

    async def wait() -> None:
        await eventually(lambda: engine.stats().num_draft_users == engine.stats().num_running == 0)

    asyncio.run(wait())


async def complete(engine: Engine, **arguments: Any) -> Completion:
    return await engine.generate(PROMPT, add_special=False, max_tokens=MAX_TOKENS, **arguments)


def default(engine: Engine) -> Drafting | None:
    return engine.drafting


async def test_what_is_enabled_holds_for_later_requests(engine: Engine, eventually: Eventually) -> None:
    assert engine.info.has_draft_head
    before = await complete(engine)
    await engine.enable_mtp(draft_len=2, adaptive=False)
    drafting = default(engine)
    assert drafting is not None
    assert (drafting.method, drafting.draft_len, drafting.adaptive) == ("mtp", 2, False)
    await eventually(lambda: engine.stats().num_draft_users == 1)
    # Not with the cells of the request before, which was computed without a draft context.
    assert is_as_simulated(await complete(engine, cache_prompt=False), PROMPT, 2)
    assert (await complete(engine, drafting=False)).usage.draft_tokens == 0
    engine.disable_drafting()
    after = await complete(engine)
    assert (after.text, after.usage.draft_tokens) == (before.text, 0)
    assert before.usage.draft_tokens == 0
    stats = engine.stats()
    assert 0 < stats.accepted_tokens < stats.draft_tokens
    assert stats.acceptance == stats.accepted_tokens / stats.draft_tokens
    assert stats.draft_seconds > 0


async def test_streams_report_their_drafts(engine: Engine) -> None:
    async with await engine.open_drafting("mtp", adaptive=False) as drafting:
        async with engine.stream(
            PROMPT, add_special=False, max_tokens=MAX_TOKENS, cache_prompt=False, drafting=drafting
        ) as stream:
            text = "".join([delta.text async for delta in stream])
        assert stream.completion is not None
        assert stream.completion.text == text
        assert is_as_simulated(stream.completion, PROMPT, 3)


async def test_a_model_that_only_announces_a_head_has_none(tiny_models: Path) -> None:
    async with await Engine.load(tiny_models / MISSING_HEAD_FILE, config()) as headless:
        assert not headless.info.has_draft_head


async def test_the_draft_context_goes_with_the_last_who_holds_it(
    engine: Engine, eventually: Eventually
) -> None:
    first = await engine.open_drafting("mtp")
    second = await engine.open_drafting("mtp", draft_len=1)
    await engine.enable_mtp()
    await eventually(lambda: engine.stats().num_draft_users == 3)
    first.close()
    engine.disable_drafting()
    await eventually(lambda: engine.stats().num_draft_users == 1)
    assert (await complete(engine, drafting=second)).usage.completion_tokens == MAX_TOKENS
    del second
    gc.collect()
    await eventually(lambda: engine.stats().num_draft_users == 0)


async def test_a_request_keeps_what_its_drafting_held(engine: Engine, eventually: Eventually) -> None:
    drafting = await engine.open_drafting("mtp", adaptive=False)
    stream = engine.stream(
        PROMPT, add_special=False, max_tokens=ENDLESS, cache_prompt=False, drafting=drafting
    )
    await stream.__anext__()
    drafting.close()
    with pytest.raises(InvalidParameterError, match=r"^drafting: must not be closed"):
        await complete(engine, drafting=drafting)
    completion = await stream.result()
    assert is_as_simulated(completion, PROMPT, 3)
    await stream.aclose()
    await eventually(lambda: engine.stats().num_draft_users == 0)


async def test_calls_that_overlap_leave_the_last_one(engine: Engine, eventually: Eventually) -> None:
    async def enable(draft_len: int) -> None:
        await engine.enable_mtp(draft_len)

    for _ in range(20):
        async with anyio.create_task_group() as tasks:
            for draft_len in (1, 2, 3, 4, 5):
                tasks.start_soon(enable, draft_len)
        drafting = default(engine)
        assert drafting is not None
        assert not drafting.is_closed
        await eventually(lambda: engine.stats().num_draft_users == 1)


async def test_disabling_ends_what_is_being_enabled(engine: Engine) -> None:
    async def enable(begun: anyio.Event) -> None:
        begun.set()
        await engine.enable_mtp()

    for _ in range(20):
        async with anyio.create_task_group() as tasks:
            begun = anyio.Event()
            tasks.start_soon(enable, begun)
            await begun.wait()
            engine.disable_drafting()
        assert default(engine) is None


async def test_a_cancelled_enable_gives_the_head_back(engine: Engine) -> None:
    for turns in range(20):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(engine.enable_mtp)
                for _ in range(turns % 4):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    engine.disable_drafting()


async def test_requests_go_on_while_drafting_comes_and_goes(engine: Engine) -> None:
    expected = (await complete(engine)).text
    async with anyio.create_task_group() as tasks:

        async def generate() -> None:
            assert (await complete(engine, cache_prompt=False)).text == expected

        for number in range(24):
            tasks.start_soon(generate)
            if number % 2:
                engine.disable_drafting()
            else:
                await engine.enable_mtp(1 + number % 8, adaptive=bool(number % 3))


async def test_the_head_of_another_engine_is_refused(engine: Engine, tiny_models: Path) -> None:
    async with await Engine.load(tiny_models / DRAFT_HEAD_FILE, config(context_length=256)) as other:
        drafting = await other.open_drafting("mtp")
        with pytest.raises(InvalidParameterError, match=r"^drafting: must belong to the engine") as raised:
            await complete(engine, drafting=drafting)
        assert raised.value.field == "drafting"
        lookup = await other.open_drafting("prompt_lookup")
        assert (await complete(engine, drafting=lookup)).usage.completion_tokens == MAX_TOKENS


async def test_an_engine_may_be_closed_under_its_heads(model: Path) -> None:
    engine = await Engine.load(model, config(context_length=256))
    await engine.enable_mtp()
    drafting = await engine.open_drafting("mtp")
    running = engine.stream(PROMPT, add_special=False, max_tokens=200, drafting=drafting)
    await running.accepted()
    await engine.close()
    with pytest.raises(EngineClosedError):
        await engine.enable_mtp()
    with pytest.raises(EngineClosedError):
        await complete(engine, drafting=drafting)
    assert default(engine) is None
    drafting.close()
    with pytest.raises(EngineClosedError):
        await running.result()


def test_threads_share_the_default(model: Path) -> None:
    with SyncEngine.load(model, config(context_length=256)) as engine:
        arguments: dict[str, Any] = {"add_special": False, "max_tokens": MAX_TOKENS, "cache_prompt": False}
        expected = engine.generate(PROMPT, **arguments)
        with engine.open_drafting("mtp", adaptive=False) as drafting:
            assert is_as_simulated(engine.generate(PROMPT, drafting=drafting, **arguments), PROMPT, 3)
        texts: list[str] = []

        def work(number: int) -> None:
            for turn in range(4):
                engine.enable_mtp(1 + (number + turn) % 8)
                texts.append(engine.generate(PROMPT, **arguments).text)
                engine.disable_drafting()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == [expected.text] * 16
        assert engine.drafting is None
