"""The engine without an event loop."""

from __future__ import annotations

import inspect
import pydoc
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pytest

from llmserve import (
    Completion,
    ContextExceededError,
    Delta,
    Embedder,
    Engine,
    EngineClosedError,
    InvalidParameterError,
    LoadError,
    ModelConfig,
    SamplingParams,
    Session,
    Stream,
    SyncEmbedder,
    SyncEngine,
    SyncSession,
    SyncStream,
    sync,
)
from loops import PATIENCE_S

PROMPT = list(range(20, 60))
CONFIG = ModelConfig(context_length=512, max_sequences=4, threads=1)


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Iterator[sync.SyncEngine]:
    values: list[float] = []
    with sync.load(tiny_model, CONFIG, on_progress=values.append) as engine:
        assert values[0] == 0
        assert values[-1] == 1
        assert values == sorted(values)
        yield engine
    assert engine.is_closed


def test_a_stream_gives_what_generate_gives(engine: sync.SyncEngine) -> None:
    params = SamplingParams(max_tokens=30, ignore_eos=True)
    whole = engine.generate(PROMPT, params)
    with engine.stream(PROMPT, params) as stream:
        deltas = list(stream)
    assert stream.completion is not None
    assert stream.completion.tokens == whole.tokens
    assert "".join(delta.text for delta in deltas) == whole.text
    assert list(stream) == []


def test_threads_share_an_engine(engine: sync.SyncEngine) -> None:
    expected = engine.generate(PROMPT, max_tokens=30).text
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(engine.generate(PROMPT, max_tokens=30).text))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert texts == [expected] * 12


def test_a_stream_can_be_left(engine: sync.SyncEngine) -> None:
    stream = engine.stream(PROMPT, ignore_eos=True)
    next(stream)
    stream.abort()
    assert len(list(stream)) < 400
    assert stream.completion is not None
    assert stream.completion.finish_reason == "cancelled"
    with engine.stream(PROMPT, ignore_eos=True) as stream:
        next(stream)
    assert list(stream) == []
    with pytest.raises(RuntimeError, match="closed"):
        stream.result()


def test_texts_and_tokens(engine: sync.SyncEngine) -> None:
    tokens = engine.tokenize("tea sea")
    assert engine.detokenize(tokens) == "tea sea"
    assert engine.info.architecture == engine.metadata["general.architecture"]
    assert engine.chat_template is not None
    assert "tea" in engine.apply_chat_template([{"role": "user", "content": "tea"}])
    assert engine.stats().num_slots == 4
    engine.check_alive()


def test_the_tokens_that_have_cells(engine: sync.SyncEngine) -> None:
    completion = engine.generate(PROMPT, max_tokens=3, ignore_eos=True)
    tokens = [*PROMPT, *(token.id for token in completion.tokens)]
    cached = engine.cached_tokens()
    # The last token has no cell yet.
    assert tokens[:-1] in [sequence.tolist() for sequence in cached.in_slots]


def test_bytes_of_tokens_and_copies_of_sessions(engine: sync.SyncEngine) -> None:
    tokens = engine.tokenize("tea sea", add_special=False)
    assert b"".join(engine.token_bytes(tokens)) == engine.detokenize_bytes(tokens) == b"tea sea"
    session = engine.session()
    engine.generate(PROMPT, max_tokens=3, session=session)
    copy = engine.session(copy=session)
    assert isinstance(copy, SyncSession)
    assert copy.tokens() == session.tokens() != []
    assert repr(copy) == f"<SyncSession {len(PROMPT) + 3} tokens>"
    with engine.stream(PROMPT, max_tokens=3, ignore_eos=True) as stream:
        assert repr(stream) == "<SyncStream waiting>"
        assert stream.accepted() == len(PROMPT)
        stream.result()
    assert repr(stream) == "<SyncStream finished: length>"
    assert repr(engine) == f"<SyncEngine {engine.info.description}, context_length=512>"


def names(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("awaited", "blocking", "only_awaited", "only_blocking"),
    [
        (Engine, SyncEngine, {"loading"}, set()),
        (Embedder, SyncEmbedder, {"loading"}, set()),
        (Session, SyncSession, set(), set()),
        (Stream, SyncStream, {"aclose"}, {"close"}),
    ],
)
def test_both_kinds_have_the_same_methods(
    awaited: type, blocking: type, only_awaited: set[str], only_blocking: set[str]
) -> None:
    assert names(awaited) - only_awaited == names(blocking) - only_blocking
    for name in names(awaited) & names(blocking):
        method = getattr(blocking, name)
        assert inspect.getdoc(method) or name == "core"
        assert not inspect.iscoroutinefunction(method)
        if name not in {"load", "stream", "session"} and inspect.isroutine(method):
            assert inspect.signature(method) == inspect.signature(getattr(awaited, name))


def test_type_checkers_know_what_operations_give(engine: sync.SyncEngine) -> None:
    assert_type(engine.tokenize("tea"), list[int])
    assert_type(engine.generate(PROMPT, max_tokens=1), Completion)
    assert_type(engine.session(), SyncSession)
    with engine.stream(PROMPT, max_tokens=1) as stream:
        assert_type(stream, SyncStream)
        assert_type(next(stream), Delta)

    async def never_called(engine: Engine) -> None:
        assert_type(await engine.tokenize("tea"), list[int])
        assert_type(await engine.session().tokens(), list[int])
        assert_type(await engine.stream(PROMPT).result(), Completion)
        assert_type(await Engine.load("model.gguf"), Engine)
        async with Embedder.load("model.gguf") as embedder:
            assert_type(embedder, Embedder)
        await engine.generate(PROMPT, max_tokens="1")  # type: ignore[arg-type]


def test_help_shows_what_operations_take_and_give() -> None:
    assert inspect.iscoroutinefunction(Engine.generate)
    shown = pydoc.plain(pydoc.render_doc(SyncEngine))
    assert "\n |  tokenize(self, text: 'str | ChatPrompt', *, add_special: 'bool' = True" in shown
    assert "\n |      The token ids of a text; the options are those of `generate`." in shown


def test_a_traceback_leads_to_the_cause(engine: sync.SyncEngine) -> None:
    with pytest.raises(InvalidParameterError) as refused:
        engine.detokenize([1 << 40])
    frames = [frame.name for frame in traceback.extract_tb(refused.value.__traceback__)]
    assert frames[1:] == ["call", "run", "detokenize", "_bytes_of"]


def test_errors(engine: sync.SyncEngine, tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(ContextExceededError):
        engine.generate([1] * 600)
    stream = engine.stream([1] * 600)
    with pytest.raises(ContextExceededError):
        next(stream)
    assert list(stream) == []
    with pytest.raises(InvalidParameterError):
        engine.generate(PROMPT, top_p=2.0)
    with pytest.raises(LoadError) as failure:
        sync.load(tmp_path / "missing.gguf")
    assert failure.value.reason == "not_found"
    with pytest.raises(ContextExceededError, match="the context length of 512 tokens"):
        engine.generate(range(10**12))  # not even looked at
    other = sync.load(tiny_model, CONFIG)
    running = other.stream(PROMPT, ignore_eos=True)
    other.close()
    other.close()
    with pytest.raises(EngineClosedError):
        list(running)
    with pytest.raises(EngineClosedError):
        other.generate(PROMPT)
