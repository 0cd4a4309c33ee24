"""Sessions: what one call leaves is what the next goes on from, and nobody else sees it."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from llmserve import (
    Completion,
    ContextExceededError,
    Engine,
    EngineClosedError,
    EngineDeadError,
    InvalidParameterError,
    ModelConfig,
    NextTurn,
    Session,
    SyncEngine,
)
from loops import one_loop
from synthetic import SENTENCEPIECE_FILE

CONFIG = ModelConfig(context_length=512, max_sequences=2, threads=1)
PROMPT = list(range(20, 60))
# Kernels sum in another order where a prompt comes in other pieces: texts may part at a near-tie.
EPSILON = 0.1


def ids(completion: Completion) -> list[int]:
    return [token.id for token in completion.tokens]


def assert_same(completion: Completion, expected: Completion) -> None:
    """The same greedy text, but for what follows a near-tie."""
    for token, other in zip(completion.tokens, expected.tokens, strict=True):
        if token.id != other.id:
            assert other.logprobs is not None
            (_, first), (_, second) = other.logprobs.top
            assert first - second < EPSILON
            return


@pytest.mark.anyio
@pytest.mark.model
@one_loop
async def test_a_continued_session_reuses_its_cells_and_gives_the_text_of_the_whole(
    engine: Engine, anyio_backend: str
) -> None:
    session = engine.session()
    # Another text on each, since the engine is the same.
    prompt = {"asyncio": "The history of Rome began", "trio": "In the north of Norway"}[anyio_backend]
    first = await engine.generate(prompt, session=session, max_tokens=40)
    num_tokens = session.num_tokens
    assert num_tokens == first.usage.total_tokens
    completion = await engine.generate(" Later,", session=session, max_tokens=24, logprobs=2)
    # The last token of an output has no cell yet.
    assert completion.usage.cached_tokens == num_tokens - 1
    whole = await session.tokens()
    assert whole[num_tokens:] == await engine.tokenize(" Later,", add_special=False) + ids(completion)
    at_once = await engine.generate(whole[:-24], max_tokens=24, logprobs=2, cache_prompt=False)
    assert at_once.usage.cached_tokens == 0
    assert_same(completion, at_once)


@pytest.mark.anyio
async def test_prompts_append_or_replace_and_reset_empties(tiny_model: Path) -> None:
    async with await Engine.load(tiny_model, CONFIG) as engine:
        session = engine.session()
        assert (session.num_tokens, await session.tokens()) == (0, [])
        first = await engine.generate(PROMPT, session=session, max_tokens=5, ignore_eos=True, templated=True)
        assert await session.tokens() == [*PROMPT, *ids(first)]
        flags = [session.is_templated]
        second = await engine.generate([70, 71], session=session, max_tokens=3, ignore_eos=True)
        assert await session.tokens() == [*PROMPT, *ids(first), 70, 71, *ids(second)]
        flags.append(session.is_templated)
        third = await engine.generate(
            PROMPT[:10], session=session, append=False, max_tokens=3, ignore_eos=True
        )
        assert await session.tokens() == [*PROMPT[:10], *ids(third)]
        assert flags == [True, False]
        # Nothing at all may follow: the model goes on by itself.
        fourth = await engine.generate([], session=session, max_tokens=3, ignore_eos=True)
        assert await session.tokens() == [*PROMPT[:10], *ids(third), *ids(fourth)]
        await session.reset()
        assert (session.num_tokens, await session.tokens()) == (0, [])


@pytest.mark.anyio
async def test_what_did_not_come_off_leaves_the_session_as_it_was(tiny_model: Path) -> None:
    async with await Engine.load(tiny_model, CONFIG) as engine, await Engine.load(tiny_model) as other:
        session = engine.session()
        await engine.generate(PROMPT, session=session, max_tokens=5, ignore_eos=True)
        before = await session.tokens()
        with pytest.raises(ContextExceededError) as exceeded:
            await engine.generate([20] * 480, session=session)
        assert exceeded.value.prompt_tokens == len(before) + 480
        with pytest.raises(InvalidParameterError, match="token 999999"):
            await engine.generate([999_999], session=session)
        with pytest.raises(InvalidParameterError, match="session: must belong to the engine"):
            await other.generate(PROMPT, session=session)
        for append in (None, 1, "yes"):
            with pytest.raises(InvalidParameterError, match="append"):
                await engine.generate(PROMPT, session=session, append=append)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="templated"):
            await engine.generate(PROMPT, session=session, templated=1)  # type: ignore[arg-type]
        assert await session.tokens() == before
        async with engine.stream(PROMPT, session=session, max_tokens=400, ignore_eos=True) as stream:
            delta = await anext(stream)
            stream.abort()
            completion = await stream.result()
        assert delta.tokens
        assert await session.tokens() == before + PROMPT + ids(completion)


@pytest.mark.anyio
async def test_the_next_turn_follows_what_ended_the_last(tiny_model: Path) -> None:
    turn = NextTurn(turn="<|im_start|>user\nb<|im_end|>\n", end_of_turn="<|im_end|>\n", after_end="\n")
    async with await Engine.load(tiny_model, CONFIG) as engine:

        async def follows(before: Sequence[int], expected: str) -> None:
            completion = await engine.generate(
                "", session=session, append=turn, templated=True, max_tokens=2, ignore_eos=True
            )
            tokens = await engine.tokenize(expected, add_special=False)
            assert await session.tokens() == [*before, *tokens, *ids(completion)]

        session = engine.session()
        end = engine.info.eos_token
        assert end is not None
        bias = {end: 100.0}
        await engine.generate(PROMPT, session=session, templated=True, max_tokens=5, logit_bias=bias)
        before = await session.tokens()
        assert before[-1] == end
        await follows(before, turn.after_end + turn.turn)
        await follows(await session.tokens(), turn.end_of_turn + turn.turn)


@pytest.mark.anyio
async def test_a_document_that_was_closed_in_time_is_the_sessions(tiny_model: Path) -> None:
    """The tokens that close it were never computed: their cells come with the next request."""
    schema = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}'
    async with await Engine.load(tiny_model, CONFIG) as engine:
        session = engine.session()
        document = await engine.generate(PROMPT, session=session, json_schema=schema, max_tokens=24)
        assert json.loads(document.text).keys() == {"a"}
        before = await session.tokens()
        assert before == [*PROMPT, *ids(document)]
        completion = await engine.generate([20], session=session, max_tokens=10, ignore_eos=True)
        whole = [*before, 20]
        expected = await engine.generate(whole, max_tokens=10, ignore_eos=True, cache_prompt=False)
        assert ids(completion) == ids(expected)


@pytest.mark.anyio
async def test_two_sessions_and_single_requests_see_nothing_of_each_other(tiny_model: Path) -> None:
    prompts = [[20 + number, *PROMPT] for number in range(3)]

    async def talk(engine: Engine, prompt: list[int], session: Session | None, result: list[int]) -> None:
        for _ in range(6):
            whole = prompt if session is not None else [*prompt, *result]
            completion = await engine.generate(whole, session=session, max_tokens=6, ignore_eos=True)
            result += ids(completion) if session is not None else [*ids(completion), *prompt]

    async with await Engine.load(tiny_model, CONFIG) as engine:
        alone: list[list[int]] = []
        for prompt in prompts:
            session, result = engine.session(), list[int]()
            await talk(engine, prompt, session, result)
            alone.append(await session.tokens())
        sessions = [engine.session(), engine.session()]
        once: list[int] = []
        async with anyio.create_task_group() as group:
            for session, prompt in zip(sessions, prompts, strict=False):
                group.start_soon(talk, engine, prompt, session, list[int]())
            group.start_soon(talk, engine, prompts[2], None, once)
        assert [await session.tokens() for session in sessions] == alone[:2]
        assert [*prompts[2], *once][: len(alone[2])] == alone[2]


@pytest.mark.anyio
async def test_a_cancelled_task_gives_its_place_in_the_session_up(tiny_model: Path) -> None:
    endless = dataclasses.replace(CONFIG, context_length=1 << 17)
    async with await Engine.load(tiny_model, endless) as engine:
        session = engine.session()
        stream = engine.stream(PROMPT, session=session, max_tokens=100_000, ignore_eos=True)
        await anext(stream)
        with anyio.move_on_after(0):
            await engine.generate(PROMPT, session=session, max_tokens=5)
        with anyio.move_on_after(0):
            await session.reset()
        waiting = engine.stream(PROMPT, session=session, max_tokens=5)
        waiting.abort()
        assert (await waiting.result()).finish_reason == "cancelled"
        assert session.num_tokens == 0
        stream.abort()
        completion = await stream.result()
        last = await engine.generate([20], session=session, max_tokens=5, ignore_eos=True)
        assert last.usage.prompt_tokens == len(PROMPT) + len(completion.tokens) + 1
        assert engine.stats().requests_cancelled == 3


def test_calls_from_several_loops_and_threads_queue(tiny_model: Path) -> None:
    with SyncEngine.load(tiny_model, CONFIG) as blocking:
        engine = Engine(blocking._core)
        session = engine.session()

        async def call() -> None:
            for _ in range(10):
                await engine.generate([20, 21], session=session, max_tokens=2, ignore_eos=True)

        threads = [threading.Thread(target=asyncio.run, args=(call(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tokens = asyncio.run(session.tokens())
    assert len(tokens) == 4 * 10 * 4
    assert all(tokens[start : start + 2] == [20, 21] for start in range(0, len(tokens), 4))


def test_the_blocking_api_has_the_same_sessions(tiny_model: Path, tmp_path: Path) -> None:
    with SyncEngine.load(tiny_model, CONFIG) as engine:
        session = engine.session()
        first = engine.generate(PROMPT, session=session, max_tokens=4, ignore_eos=True, templated=True)
        session.save(tmp_path / "session")
        with engine.stream([70], session=session, max_tokens=4, ignore_eos=True) as stream:
            assert sum(len(delta.tokens) for delta in stream) == 4
        assert session.num_tokens == len(PROMPT) + 4 + 1 + 4
        session.load(tmp_path / "session")
        assert (session.tokens(), session.is_templated) == ([*PROMPT, *ids(first)], True)
        session.reset()
        assert (session.num_tokens, session.tokens()) == (0, [])


@pytest.mark.anyio
async def test_a_session_may_go_while_its_requests_run(tiny_model: Path) -> None:
    async with await Engine.load(tiny_model, CONFIG) as engine:
        session = engine.session()
        streams = [engine.stream(PROMPT, session=session, max_tokens=20, ignore_eos=True) for _ in range(3)]
        del session
        gc.collect()
        counts = [(await stream.result()).usage.prompt_tokens for stream in streams]
        assert counts == [40, 100, 160]


@pytest.mark.anyio
async def test_a_closed_engine_has_no_use_for_its_sessions(tiny_model: Path, tmp_path: Path) -> None:
    engine = await Engine.load(tiny_model, CONFIG)
    session = engine.session()
    await engine.generate(PROMPT, session=session, max_tokens=5, ignore_eos=True)
    await engine.close()
    with pytest.raises(EngineClosedError):
        engine.session()
    with pytest.raises(EngineClosedError):
        await engine.generate(PROMPT, session=session)
    for call in (session.save, session.load):
        with pytest.raises(EngineClosedError):
            await call(tmp_path / "session")
    assert session.num_tokens == 45


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sessions_are_dead_in_a_forked_child(tiny_model: Path, tmp_path: Path) -> None:
    with SyncEngine.load(tiny_model, CONFIG) as engine:
        session = engine.session()
        engine.generate(PROMPT, session=session, max_tokens=5, ignore_eos=True)
        child = os.fork()
        if child == 0:
            num_dead = 0
            calls = (lambda: session.num_tokens, session.tokens, session.reset)
            for call in (*calls, lambda: session.save(tmp_path / "session")):
                try:
                    call()
                except EngineDeadError:
                    num_dead += 1
            os._exit(num_dead)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert session.num_tokens == 45


@pytest.mark.anyio
async def test_text_goes_on_within_a_word(tiny_models: Path) -> None:
    """SentencePiece puts a space before a text, which does not belong in the middle of a session."""
    async with await Engine.load(tiny_models / SENTENCEPIECE_FILE, CONFIG) as engine:
        for prompt, more in (("the an", "d the"), ("the and", " in"), ("the", "\nin the"), ("a", "")):
            session = engine.session()
            await engine.generate(
                prompt, session=session, max_tokens=1, ignore_eos=True, logit_bias={268: 99}
            )
            before = await session.tokens()
            await engine.generate(more, session=session, max_tokens=1, ignore_eos=True)
            appended = (await session.tokens())[len(before) : -1]
            assert await engine.detokenize(appended) == more
        # After a control token it does, as it would in one text.
        control = await engine.tokenize("[INST]", add_special=False)
        await engine.generate(
            control, session=session, append=False, max_tokens=1, logit_bias={control[0]: 99}
        )
        before = await session.tokens()
        assert before[-1] == control[0]
        await engine.generate("the", session=session, max_tokens=1)
        assert (await session.tokens())[len(before) : -1] == await engine.tokenize("the", add_special=False)
