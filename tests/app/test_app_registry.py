"""The registry with real engines of a model that loads in milliseconds."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from llmserve import Engine, EngineClosedError, LoadError, ModelConfig
from llmserve.server.apis.ops.engine_metrics import Snapshot, engine_lines
from llmserve.server.models import ModelReport, Registry
from llmserve.server.refusals import (
    LoadAbandonedError,
    ModelLoadingError,
    ServerStoppingError,
    UnknownModelError,
)

CONFIG = ModelConfig(context_length=512, max_sequences=2, threads=1)
Scenario = Callable[[Registry], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        registry = Registry(CONFIG)
        try:
            await scenario(registry)
        finally:
            await registry.close()
        assert registry.models == ()

    asyncio.run(main())


async def load(registry: Registry, path: Path, pin: str, config: ModelConfig | None = None) -> None:
    with registry.load(path, pin, config) as ticket:
        await ticket.wait()


def test_a_model_goes_with_its_last_pin(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        await load(registry, tiny_model, "a")
        engine = registry.pick(tiny_model).engine
        await load(registry, tiny_model, "b")
        assert registry.pick(tiny_model).engine is engine
        registry.unpin(tiny_model, "a")
        with registry.use_model(registry.pick(tiny_model)) as used:
            assert used is engine
            registry.unpin(tiny_model, "b")
            # Not while it is used.
            assert (await used.generate("sea", max_tokens=3)).usage.completion_tokens > 0
        with pytest.raises(UnknownModelError), registry.use_model(registry.pick(tiny_model)):
            pass
        await registry.close()
        assert engine is not None
        assert engine.is_closed
        with pytest.raises(EngineClosedError):
            await engine.generate("sea", max_tokens=1)

    run(scenario)


def test_while_a_model_is_loading_it_cannot_be_used(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        with registry.load(tiny_model, "a") as ticket:
            assert registry.states() == [ModelReport("llama", "loading")]
            with pytest.raises(ModelLoadingError), registry.use_model(registry.pick(tiny_model)):
                pass
            await ticket.wait()
        assert registry.states() == [ModelReport("llama", "ready", has_draft_head=False)]
        with registry.use_model(registry.pick(tiny_model)):
            assert registry.states() == [ModelReport("llama", "busy", has_draft_head=False)]

    run(scenario)


def test_all_callers_see_progress_that_never_falls(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        async def watch(pin: str) -> list[float]:
            with registry.load(tiny_model, pin) as ticket:
                return [progress async for progress in ticket.progress()]

        for seen in await asyncio.gather(watch("a"), watch("b"), watch("c")):
            assert seen[0] == 0.0
            assert seen == sorted(seen)
            assert all(0 <= value <= 1 for value in seen)
        (model,) = registry.models
        assert model.pins == {"a", "b", "c"}

    run(scenario)


def test_the_last_ticket_that_leaves_cancels_the_load_and_it_can_begin_again(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        first, second = registry.load(tiny_model, "a"), registry.load(tiny_model, "b")
        with first, second:
            pass
        # The load is being cancelled: the next one does not join it.
        await load(registry, tiny_model, "c")
        (model,) = registry.models
        assert model.pins == {"c"}

    run(scenario)


def test_one_that_stays_keeps_the_load(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        with registry.load(tiny_model, "a") as stays:
            with registry.load(tiny_model, "b"):
                pass
            await stays.wait()
        (model,) = registry.models
        assert model.pins == {"a"}

    run(scenario)


def test_a_file_name_that_is_no_text_can_be_shown(tiny_model: Path, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf"))
    shutil.copy(tiny_model, path)

    async def scenario(registry: Registry) -> None:
        with pytest.raises(LoadError):  # llama.cpp opens no such name
            await load(registry, path, "a")
        assert registry.states() == [ModelReport("caf\ufffd", "failed")]
        assert orjson.dumps([report.id for report in registry.states()]) == '["caf\ufffd"]'.encode()
        text = "\n".join(engine_lines(Snapshot.of(registry)))
        assert 'llmserve_model_state{model="caf\ufffd",state="failed"} 1' in text
        assert text.encode()

    run(scenario)


def test_a_load_that_fails_is_logged_by_the_engine_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(registry: Registry) -> None:
        with pytest.raises(LoadError):
            await load(registry, tmp_path / "missing.gguf", "a")

    with caplog.at_level(logging.INFO, "llmserve.server.models"):
        run(scenario)
    assert [record for record in caplog.records if record.name.startswith("llmserve.server.models")] == []


def test_failures_reach_every_caller_and_can_be_tried_again(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"

    async def scenario(registry: Registry) -> None:
        results = await asyncio.gather(*(load(registry, path, "a") for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [LoadError] * 3
        assert registry.states() == [ModelReport("model", "failed")]
        with pytest.raises(UnknownModelError), registry.use_model(registry.pick(path)):
            pass
        shutil.copy(tiny_model, path)
        await load(registry, path, "a")
        assert registry.states() == [ModelReport("model", "ready", has_draft_head=False)]

    run(scenario)


def test_failed_loads_are_remembered_up_to_a_bound(tmp_path: Path) -> None:
    async def scenario(registry: Registry) -> None:
        for number in range(20):
            with pytest.raises(LoadError):
                await load(registry, tmp_path / f"{number}.gguf", "a")
        assert [report.id for report in registry.states()] == [str(number) for number in range(4, 20)]

    run(scenario)


def test_other_options_make_another_engine_and_the_servers_own_is_preferred(tiny_model: Path) -> None:
    other = ModelConfig(context_length=256, max_sequences=1, threads=1)

    async def scenario(registry: Registry) -> None:
        await load(registry, tiny_model, "a", other)
        assert registry.pick(tiny_model).config == other
        await load(registry, tiny_model, "b")
        assert registry.pick(tiny_model).config == CONFIG
        assert registry.models[0].config == other

    run(scenario)


def test_the_id_stays_with_what_was_loaded_last(tiny_model: Path, tmp_path: Path) -> None:
    configs = [ModelConfig(context_length=n, max_sequences=1, threads=1) for n in (128, 256, 512)]
    twin = tmp_path / tiny_model.name
    shutil.copy(tiny_model, twin)

    def ids(registry: Registry) -> dict[str, int | None]:
        return {model.id: model.config.context_length for model in registry.models}

    async def scenario(registry: Registry) -> None:
        await load(registry, tiny_model, "a", configs[0])
        with registry.load(tiny_model, "a", configs[1]) as ticket:
            # Not before it is there.
            assert ids(registry) == {"llama": 128, "llama-2": 256}
            await ticket.wait()
        assert ids(registry) == {"llama": 256, "llama-2": 128}
        await load(registry, tiny_model, "a", configs[2])
        assert ids(registry) == {"llama": 512, "llama-3": 256, "llama-2": 128}
        await load(registry, twin, "a", configs[0])
        # A load that fails takes nothing.
        with pytest.raises(LoadError):
            await load(registry, tiny_model, "a", ModelConfig(context_length=0))
        registry.unpin(tiny_model, "a", configs[2])
        assert [model.id for model in registry.models] == ["llama-2", "llama", "llama-4", "llama-5"]
        registry.unpin(tiny_model, "a", configs[1])
        assert [model.id for model in registry.models] == ["llama", "llama-4", "llama-5"]

    run(scenario)


def test_an_id_of_the_catalogue_stays_with_its_options(tiny_model: Path) -> None:
    other = ModelConfig(context_length=256, max_sequences=1, threads=1)

    async def scenario(registry: Registry) -> None:
        registry.name_of = lambda path, config: "Org/Name" if config == CONFIG else None
        await load(registry, tiny_model, "a")
        await load(registry, tiny_model, "a", other)
        assert [(model.id, model.config) for model in registry.models] == [
            ("Org/Name", CONFIG),
            ("llama", other),
        ]

    run(scenario)


def test_a_stopping_server_ends_loads_with_the_reason(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        with registry.load(tiny_model, "a") as ticket:
            await registry.cancel_loads()
            with pytest.raises(ServerStoppingError):
                await ticket.wait()
        assert registry.states() == []

    run(scenario)


def test_an_engine_that_was_closed_elsewhere_is_replaced(tiny_model: Path) -> None:
    async def scenario(registry: Registry) -> None:
        await load(registry, tiny_model, "a")
        closed = registry.pick(tiny_model).engine
        assert isinstance(closed, Engine)
        await closed.close()
        with pytest.raises(UnknownModelError), registry.use_model(registry.pick(tiny_model)):
            pass
        await load(registry, tiny_model, "b")
        (model,) = registry.models
        assert model.engine is not closed
        assert model.pins == {"a", "b"}

    run(scenario)


DEAD = """
    import asyncio, os, sys
    from pathlib import Path
    from llmserve import ModelConfig
    from llmserve.server.models import Registry, Revival
    from llmserve.server.models.revival import MAX_LOADS

    path, config = Path(sys.argv[1]), ModelConfig(context_length=512, max_sequences=1, threads=1)
    registry = Registry(config)
    revival = Revival(registry)

    async def load():
        with registry.load(path, "a") as ticket:
            await ticket.wait()
        await revival.look()  # finds nothing to do

    async def look():
        dead, states = registry.has_dead_engine, [report.state for report in registry.states()]
        assert dead and states == ["failed"], states
        await revival.look()
        (model,) = registry.models
        assert model.pins == {"a"}
        if not model.is_dead:
            assert len((await model.engine.generate([30, 31], max_tokens=3)).tokens) == 3
        return model.is_dead

    asyncio.run(load())
    for generation in range(MAX_LOADS + 1):
        if (child := os.fork()) != 0:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stays_dead = asyncio.run(look())
        assert stays_dead == (generation == MAX_LOADS), generation
    os._exit(0)
"""


def test_a_dead_engine_shows_and_is_loaded_again_a_few_times(tiny_model: Path) -> None:
    # In a forked child engines are dead, which is the one way to die that can be had on purpose.
    command = [sys.executable, "-c", textwrap.dedent(DEAD), str(tiny_model)]
    subprocess.run(command, check=True, timeout=60)


def test_abandoned_is_what_a_cancelled_load_says() -> None:
    assert str(LoadAbandonedError()) == "the load was cancelled"
