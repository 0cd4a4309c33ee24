"""The load that `llmserve serve` begins before it imports the server."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from llmserve import LoadError, ModelConfig, any_model
from llmserve._binding import loads
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.loading import Loading
from llmserve.server.early_load import EarlyLoad
from llmserve.server.models import Registry
from llmserve.server.serving import Announcer
from llmserve.server.settings import parse_settings

CONFIG = ModelConfig(context_length=512, max_sequences=2, threads=1)


@pytest.fixture
def loaded_anew(monkeypatch: pytest.MonkeyPatch) -> list[ModelConfig]:
    """The options of the loads that were not early."""
    configs = []
    load_any = any_model.load_any

    def load(
        path: Path, config: ModelConfig, on_progress: Callable[[float], object]
    ) -> Loading[Engine | Embedder]:
        configs.append(config)
        return load_any(path, config, on_progress)

    monkeypatch.setattr(any_model, "load_any", load)
    return configs


def test_the_first_who_wants_the_model_gets_the_load(
    tiny_model: Path, loaded_anew: list[ModelConfig]
) -> None:
    early = EarlyLoad(tiny_model, CONFIG)
    other = ModelConfig(context_length=256, max_sequences=1, threads=1)
    progress: list[float] = []

    async def main() -> None:
        for config in (other, CONFIG, CONFIG):
            model = await early.load(tiny_model, config, progress.append)
            assert model.info.context_length == config.context_length
            await model.close()

    asyncio.run(main())
    assert loaded_anew == [other, CONFIG]
    assert progress.count(0) == progress.count(1) == 3


def test_its_failure_is_that_of_the_load(tmp_path: Path, loaded_anew: list[ModelConfig]) -> None:
    early = EarlyLoad(tmp_path / "missing.gguf", CONFIG)
    with pytest.raises(LoadError, match="no such file"):
        asyncio.run(early.load(tmp_path / "missing.gguf", CONFIG, lambda progress: None))
    assert loaded_anew == []


def test_it_ends_with_the_task_that_waits_for_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "_probe_command", lambda: ["/bin/sh", "-c", "sleep 600"])
    unknown = tmp_path / "unknown.gguf"
    shutil.copy(tiny_model, unknown)
    early = EarlyLoad(unknown, CONFIG)

    async def main() -> None:
        has_begun = asyncio.Event()
        task = asyncio.create_task(early.load(unknown, CONFIG, lambda progress: has_begun.set()))
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # Returns only when the thread that waits for the load has ended.
    asyncio.run(main())


def test_under_a_memory_limit_no_load_is_early(tiny_model: Path) -> None:
    settings = {"LLMSERVE_MODEL": str(tiny_model)}
    assert EarlyLoad.of(parse_settings({})) is None
    assert EarlyLoad.of(parse_settings({**settings, "LLMSERVE_MODEL_MEMORY_BYTES": "1000000000"})) is None


def test_what_is_ready_early_is_announced_when_the_address_is_known(tiny_model: Path) -> None:
    stream = io.StringIO()
    announcer = Announcer(parse_settings({"LLMSERVE_MODEL": str(tiny_model)}), stream)

    async def main() -> None:
        registry = Registry(CONFIG)
        with registry.load(tiny_model, "a") as ticket:
            await ticket.wait()
        announcer.on_ready(registry.pick(tiny_model))
        assert "address" not in stream.getvalue()
        announcer.on_listening()
        assert stream.getvalue().count("address") == 1
        await registry.close()

    asyncio.run(main())
