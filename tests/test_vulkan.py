"""All layers and the KV cells on a Vulkan device: `scripts/vulkan_tests.py` builds for it and runs these."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import loaded
from llmserve import Engine, ModelConfig, _core
from loops import one_loop
from recorded_texts import RECORDED, parts_at_a_near_tie

pytestmark = [one_loop, pytest.mark.anyio, pytest.mark.model, pytest.mark.vulkan, pytest.mark.slow]

CONFIG = ModelConfig(context_length=512, max_sequences=4, threads=1)
STORY = "Once upon a time, in a small village by the sea,"
REPEATING = "one two three four, one two three four, one two three four, one two"
PATIENCE_S = 120


class _KvLine(logging.Handler):
    """Notes that llama.cpp has said where it put the cells."""

    def __init__(self) -> None:
        super().__init__()
        self.was_seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if re.search(r"Vulkan0 +KV buffer size", record.getMessage()):
            self.was_seen.set()


@pytest.fixture(scope="module")
def kv_line() -> Iterator[_KvLine]:
    """Watches the log from before the first load."""
    logger, handler = logging.getLogger("llmserve.engine"), _KvLine()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def engine(model_path: Path, kv_line: _KvLine) -> Iterator[Engine]:
    with loaded(model_path, CONFIG) as engine:
        yield engine


async def test_a_device_is_listed() -> None:
    [vulkan] = [backend for backend in _core.backends() if backend["name"] == "Vulkan"]
    [device] = vulkan["devices"]
    assert device["name"] == "Vulkan0"
    assert device["kind"] in ("gpu", "integrated_gpu")
    assert 0 < device["free_bytes"] <= device["total_bytes"]


async def test_layers_and_cells_are_on_the_device(engine: Engine, kv_line: _KvLine) -> None:
    assert engine.info.backend.startswith("Vulkan0 (")
    assert engine.info.num_gpu_layers == engine.info.num_layers + 1
    assert kv_line.was_seen.wait(PATIENCE_S)


async def test_greedy_text_is_that_of_the_cpu(engine: Engine) -> None:
    num_parted = [await parts_at_a_near_tie(engine, recorded) for recorded in RECORDED["completions"]]
    assert sum(num_parted) <= len(num_parted) // 2


async def test_a_session_is_restored(engine: Engine, model_path: Path, tmp_path: Path) -> None:
    session = engine.session()
    await engine.generate(STORY, session=session, max_tokens=16)
    tokens = await session.tokens()
    await session.save(tmp_path / "session")
    expected = await engine.generate(" Then", session=session, max_tokens=16)
    on_cpu = ModelConfig(context_length=512, max_sequences=4, threads=1, gpu_layers=0)
    for config in (CONFIG, on_cpu):
        async with await Engine.load(model_path, config) as other:
            restored = other.session()
            await restored.load(tmp_path / "session")
            assert await restored.tokens() == tokens
            again = await other.generate(" Then", session=restored, max_tokens=16)
            assert again.usage.cached_tokens == expected.usage.cached_tokens >= len(tokens) - 1
            if config is CONFIG:
                assert again.text == expected.text


async def test_drafts_leave_the_text_alone(engine: Engine) -> None:
    plain = await engine.generate(REPEATING, max_tokens=32, cache_prompt=False)
    await engine.enable_prompt_lookup(draft_len=4, adaptive=False)
    drafted = await engine.generate(REPEATING, max_tokens=32, cache_prompt=False)
    engine.disable_drafting()
    assert drafted.usage.accepted_tokens > 0
    assert drafted.text == plain.text
