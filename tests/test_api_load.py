"""Loading models: progress, sharing, cancelling, failing, freeing."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from llmserve import Engine, EngineClosedError, LoadError, LoraAdapter, ModelConfig, sync
from loops import PATIENCE_S
from synthetic import main_file

SMALL = ModelConfig(context_length=256, max_sequences=2, threads=1)
PROMPT = list(range(20, 40))


@pytest.mark.anyio
async def test_progress_rises_from_0_to_1(tiny_model: Path) -> None:
    values: list[float] = []
    async with await Engine.load(tiny_model, SMALL, on_progress=values.append) as engine:
        assert values[0] == 0
        assert values[-1] == 1
        assert values == sorted(values)
        assert (engine.info.context_length, engine.info.num_slots) == (256, 2)
        assert engine.info.kv_layout == "per_sequence"
    assert engine.is_closed


def test_each_percent_is_told_once() -> None:
    loading = Engine.load("model.gguf")
    for value in [0.0, 0.004, 0.01, 0.0199, 0.02, 0.5, 0.5, 0.49, 0.999, 1.0, 1.0]:
        loading._add(("progress", value))
    assert list(loading._progress) == [0.0, 0.01, 0.02, 0.5, 0.999, 1.0]


@pytest.mark.model
@pytest.mark.anyio
async def test_a_load_of_many_tensors_tells_each_percent_once(model_path: Path) -> None:
    values: list[float] = []
    async with await Engine.load(model_path, SMALL, on_progress=values.append):
        pass
    values_sync: list[float] = []
    sync.load(model_path, SMALL, on_progress=values_sync.append).close()
    for told in (values, values_sync):
        percents = [int(value * 100) for value in told]
        assert (told[0], told[-1]) == (0, 1)
        assert percents == sorted(set(percents))


@pytest.mark.anyio
async def test_progress_can_be_iterated(tiny_model: Path) -> None:
    loading = Engine.load(str(tiny_model), SMALL)
    assert repr(loading) == "<Loading not begun>"
    values = [progress async for progress in loading]
    assert (values[0], values[-1]) == (0, 1)
    engine = await loading
    assert await loading is engine
    await loading.aclose()
    assert not engine.is_closed
    assert repr(loading) == f"<Loading {engine!r}>"
    await engine.close()


@pytest.mark.anyio
async def test_a_load_can_be_entered(tiny_model: Path) -> None:
    values: list[float] = []
    loading = Engine.load(tiny_model, SMALL, on_progress=values.append, context_length=200, max_sequences=1)
    async with loading as engine:
        assert (engine.info.context_length, engine.info.num_slots) == (200, 1)
        assert not engine.is_closed
        assert repr(engine) == f"<Engine {engine.info.description}, context_length=200>"
    assert repr(engine).endswith(", closed>")
    assert (values[0], values[-1]) == (0, 1)
    with pytest.raises(TypeError, match="`contextlength` is not a load option"):
        Engine.load(tiny_model, contextlength=200)  # type: ignore[call-arg]


@pytest.mark.parametrize("begin", [asyncio.run, asyncio.Runner().run], ids=["run", "runner"])
def test_a_load_is_a_coroutine(begin: Callable[[Any], Engine], tiny_model: Path) -> None:
    asyncio.run(begin(Engine.load(tiny_model, SMALL)).close())
    engine = trio.run(Engine.load, tiny_model, SMALL)
    trio.run(engine.close)

    async def in_a_task() -> None:
        engine = await asyncio.create_task(Engine.load(tiny_model, SMALL))
        await engine.close()
        task = asyncio.create_task(Engine.load(tiny_model, SMALL))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(in_a_task())


@pytest.mark.anyio
async def test_a_load_that_is_left_is_cancelled(tiny_model: Path) -> None:
    loading = Engine.load(tiny_model, SMALL)
    await loading.aclose()
    assert [progress async for progress in loading] == []
    with pytest.raises(LoadError) as cancelled:
        await loading
    assert cancelled.value.reason == "cancelled"
    with anyio.CancelScope() as scope:
        scope.cancel()
        await Engine.load(tiny_model, SMALL)
    assert scope.cancelled_caught
    async with await Engine.load(tiny_model, SMALL) as engine:
        assert len((await engine.generate(PROMPT, max_tokens=3)).tokens) == 3


@pytest.mark.anyio
async def test_who_awaits_a_load_that_is_over_can_be_cancelled(tiny_model: Path) -> None:
    loading = Engine.load(tiny_model, SMALL)
    assert [progress async for progress in loading][-1] == 1
    with anyio.CancelScope() as scope:
        scope.cancel()
        await loading
    assert scope.cancelled_caught
    async with loading as engine:
        engine.check_alive()


@pytest.mark.anyio
@pytest.mark.parametrize("leaver", [0, 1])
async def test_a_load_goes_on_while_somebody_waits(leaver: int, tiny_model: Path) -> None:
    loading = Engine.load(tiny_model, SMALL)
    scopes = [anyio.CancelScope(), anyio.CancelScope()]
    engines: list[Engine] = []

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            engines.append(await loading)

    async with anyio.create_task_group() as group:
        for scope in scopes:
            group.start_soon(wait, scope)
        await anyio.wait_all_tasks_blocked()
        scopes[leaver].cancel()
    assert [scope.cancelled_caught for scope in scopes] == [leaver == 0, leaver == 1]
    async with engines[0] as engine:
        engine.check_alive()


@pytest.mark.anyio
async def test_a_load_goes_on_while_its_progress_is_read(tiny_model: Path) -> None:
    loading = Engine.load(tiny_model, SMALL)
    left = anyio.CancelScope()
    values: list[float] = []

    async def wait() -> None:
        with left:
            await loading

    async def read() -> None:
        values.extend([progress async for progress in loading])

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        left.cancel()
    assert left.cancelled_caught
    assert values[-1] == 1
    async with loading as engine:
        engine.check_alive()


@pytest.mark.anyio
async def test_an_engine_that_nobody_fetched_goes_with_its_loading(tiny_model: Path) -> None:
    loading = Engine.load(tiny_model, SMALL)
    assert [progress async for progress in loading][-1] == 1
    del loading
    gc.collect()
    async with await Engine.load(tiny_model, SMALL) as engine:
        engine.check_alive()


@pytest.mark.anyio
async def test_loads_of_one_file_at_a_time_share_an_engine(tiny_model: Path) -> None:
    engines: list[Engine] = []
    loadings = [Engine.load(tiny_model, SMALL) for _ in range(3)]
    await loadings[0].aclose()
    for loading in loadings[1:]:
        engines.append(await loading)
    first, second = engines
    await first.close()
    assert first.is_closed
    with pytest.raises(EngineClosedError):
        await first.generate(PROMPT)
    assert not second.is_closed
    assert len((await second.generate(PROMPT, max_tokens=3)).tokens) == 3
    await second.close()
    with pytest.raises(EngineClosedError):
        second.check_alive()


@pytest.mark.anyio
async def test_an_engine_stays_for_a_load_that_has_not_fetched_it(tiny_model: Path) -> None:
    first, second = Engine.load(tiny_model, SMALL), Engine.load(tiny_model, SMALL)
    with anyio.fail_after(PATIENCE_S):
        await (await first).close()
        async with await second as engine:
            assert len((await engine.generate(PROMPT, max_tokens=3)).tokens) == 3


@pytest.mark.anyio
async def test_an_engine_can_be_closed_as_soon_as_it_is_there(tiny_model: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        for _ in range(20):
            await (await Engine.load(tiny_model, SMALL)).close()


@pytest.mark.anyio
async def test_engines_of_one_file_and_of_others_live_side_by_side(tiny_models: Path) -> None:
    llama = tiny_models / main_file("llama")
    async with (
        await Engine.load(llama, SMALL) as one,
        await Engine.load(llama, SMALL) as two,
        await Engine.load(tiny_models / main_file("recurrent"), SMALL) as other,
        await Engine.load(tiny_models / "split-00001-of-00002.gguf", SMALL) as split,
    ):
        assert other.info.is_recurrent
        assert not one.info.is_recurrent
        texts: dict[Engine, str] = {}

        async def generate(engine: Engine) -> None:
            texts[engine] = (await engine.generate(PROMPT, max_tokens=12, ignore_eos=True)).text

        async with anyio.create_task_group() as group:
            for engine in (one, two, other, split):
                group.start_soon(generate, engine)
        assert texts[one] == texts[two] == texts[split]
        assert texts[one] != texts[other]
        await one.close()
        assert (await two.generate(PROMPT, max_tokens=12, ignore_eos=True)).text == texts[two]


@pytest.mark.anyio
async def test_a_config_has_its_effect(tiny_models: Path) -> None:
    config = ModelConfig(
        context_length=128,
        max_sequences=3,
        kv_layout="unified",
        kv_cells=300,
        kv_type_k="f32",
        kv_type_v="bf16",
        threads=1,
        use_mmap=False,
        metadata_overrides={"general.name": "renamed", "llama.context_length": 64},
        lora=(LoraAdapter(path=tiny_models / "lora.gguf", scale=0.5),),
    )
    llama = tiny_models / main_file("llama")
    async with await Engine.load(llama, SMALL) as plain, await Engine.load(llama, config) as engine:
        info = engine.info
        assert (info.context_length, info.num_slots, info.num_threads) == (128, 3, 1)
        assert info.num_cells >= 300
        assert (info.kv_layout, info.kv_type_k, info.kv_type_v) == ("unified", "f32", "bf16")
        prompt = {"prompt": PROMPT, "max_tokens": 12, "ignore_eos": True}
        assert (await engine.generate(**prompt)).text != (await plain.generate(**prompt)).text  # type: ignore[arg-type]
        # Published by the engine's thread once it runs.
        assert engine.stats().num_slots == 3


def test_a_load_begins_in_an_event_loop(tiny_model: Path) -> None:
    loading = Engine.load(tiny_model)
    with pytest.raises(RuntimeError, match="no running event loop"):
        loading.send(None)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_unloading_gives_the_memory_back(model_path: Path) -> None:
    config = ModelConfig(context_length=2048, max_sequences=8, threads=1, use_mmap=False)

    async def round_trip() -> int:
        async with await Engine.load(model_path, config) as engine:
            await engine.generate("Hello", max_tokens=2)
            loaded = resident_bytes()
        del engine
        gc.collect()
        return loaded

    loaded = [asyncio.run(round_trip())]
    start = resident_bytes()
    loaded += [asyncio.run(round_trip()) for _ in range(3)]
    end = resident_bytes()
    held = min(loaded) - start
    assert held > 80 << 20, "the weights; cells take memory when they are used"
    assert end - start < held / 10


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_engines_of_one_file_share_its_weights(model_path: Path) -> None:
    config = ModelConfig(context_length=256, max_sequences=1, threads=1, use_mmap=False)

    async def load_two() -> tuple[int, int]:
        start = resident_bytes()
        async with await Engine.load(model_path, config) as one:
            await one.generate("Hello", max_tokens=1)
            with_one = resident_bytes()
            async with await Engine.load(model_path, config) as two:
                await two.generate("Hello", max_tokens=1)
                return with_one - start, resident_bytes() - with_one

    first, second = asyncio.run(load_two())
    assert first > 90 << 20
    assert second < first / 2
