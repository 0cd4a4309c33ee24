"""Models under a memory limit, with real engines: who makes room, who stays, who waits."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from llmserve import LoadError
from llmserve.server.apis.llamatik.state import ChosenModel
from llmserve.server.models import IDLE_PIN
from llmserve.server.models.memory import held_bytes, kv_bytes
from llmserve.server.refusals import ModelKindError, ModelLoadingError, ServerStoppingError
from llmserve.server.services import Services
from serving.services import load, run, say


def measure(tiny_model: Path) -> int:
    """The memory of one of the models."""
    sizes = []

    async def scenario(services: Services) -> None:
        await load(services, tiny_model, "a")
        sizes.append(held_bytes(services.registry.models))

    run(scenario)
    return sizes[0]


def test_the_longest_idle_model_makes_room(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        texts = [await say(services, name) for name in "abac"]
        assert len(set(texts)) == 1
        assert sorted(model.id for model in services.registry.models) == ["a", "c"]
        assert held_bytes(services.registry.models) <= 2 * one

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=2 * one)


def test_embedding_models_make_room_and_are_made_room_for(folder: Path, tiny_models: Path) -> None:
    one = measure(tiny_models / "embed-last.gguf")
    for name in "de":
        shutil.copy(tiny_models / "embed-last.gguf", folder / f"{name}.gguf")

    async def embed(services: Services, model_id: str) -> int:
        async with services.on_demand.use_embedder(model_id) as used:
            return (await used.embedder.embed("sea")).dimensions

    async def scenario(services: Services) -> None:
        await say(services, "a")
        assert await embed(services, "d") == await embed(services, "e")
        assert sorted(model.id for model in services.registry.models) == ["d", "e"]
        assert held_bytes(services.registry.models) <= 2 * one
        await say(services, "b")
        assert sorted(model.id for model in services.registry.models) == ["b", "e"]
        for wanted, use in (("d", say), ("a", embed)):
            with pytest.raises(ModelKindError):
                await use(services, wanted)
        # Nothing had to go for a model that is of no use.
        assert sorted(model.id for model in services.registry.models) == ["b", "e"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=2 * one)


def test_a_load_by_path_takes_the_memory_of_idle_models_too(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        for name in "ab":
            await say(services, name)
        await load(services, folder / "c.gguf", "other")
        assert sorted(model.id for model in services.registry.models) == ["b", "c"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=2 * one)


def test_what_was_loaded_by_path_gives_way_like_others(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        for name in "abc":
            await load(services, folder / f"{name}.gguf", IDLE_PIN)
        assert [model.id for model in services.registry.models] == ["b", "c"]
        assert held_bytes(services.registry.models) == 2 * one
        assert await say(services, "a")
        assert [model.id for model in services.registry.models] == ["c", "a"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=2 * one)


def test_a_load_by_path_waits_for_memory_too(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        async with services.on_demand.use("a"):
            # Those that wait do not wait for each other.
            loads = [asyncio.create_task(load(services, folder / f"{name}.gguf", IDLE_PIN)) for name in "bc"]
            with pytest.raises(ModelLoadingError):
                async with services.on_demand.use("b", wait_s=0):
                    pass
            assert held_bytes(services.registry.models) == one
        await asyncio.gather(*loads)
        assert held_bytes(services.registry.models) == one

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one)


def test_a_load_by_path_that_can_never_fit_fails(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        await load(services, folder / "a.gguf", "other")
        for _ in range(2):
            with pytest.raises(LoadError, match="LLMSERVE_MODEL_MEMORY_BYTES"):
                await load(services, folder / "b.gguf", IDLE_PIN)
        assert [model.id for model in services.registry.models] == ["a"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one)


def test_a_model_that_its_owner_replaces_stays_until_then(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        generation = ChosenModel(services.registry, "llamatik")
        await say(services, "c")
        for name in "ab":
            await generation.init(folder / f"{name}.gguf", lambda: services.registry.default_config)
        # It took the memory of the idle one, and the former its own.
        assert [model.id for model in services.registry.models] == ["b"]
        generation.shutdown()

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one)


def test_models_that_are_pinned_or_used_stay(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        await load(services, folder / "a.gguf", "other")
        async with services.on_demand.use("b"):
            with pytest.raises(ModelLoadingError):
                async with services.on_demand.use("c", wait_s=0):
                    pass
            entry = await services.catalogue.find("c")
            assert services.on_demand.state(entry).name == "loading"
            states = {report.id: report.state for report in services.registry.states()}
            assert states == {"a": "ready", "b": "busy", "c": "loading"}
            assert held_bytes(services.registry.models) == 2 * one
        # Now b is idle.
        assert await say(services, "c")
        assert sorted(model.id for model in services.registry.models) == ["a", "c"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=2 * one)


def test_a_model_that_can_never_fit_fails_at_once(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        await load(services, folder / "a.gguf", "other")
        with pytest.raises(LoadError, match="LLMSERVE_MODEL_MEMORY_BYTES") as caught:
            await say(services, "b")
        assert caught.value.reason == "not_enough_memory"
        services.registry.unpin(folder / "a.gguf", "other")
        assert await say(services, "b")

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one)


def test_sessions_survive_unloading(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def go_on(services: Services, name: str) -> list[int]:
        async with services.on_demand.use("a") as used:
            with services.sessions.call(used.model, name, "test", goes_on=True) as call:
                async with call.submitting() as session:
                    stream = used.engine.stream("sea", session=session, max_tokens=3, temperature=0)
                async with stream:
                    await stream.result()
                return await session.tokens()

    async def scenario(services: Services) -> None:
        first = await go_on(services, "s")
        former = services.registry.models[0]
        assert await say(services, "b")
        assert former.engine is not None
        assert former.engine.is_closed
        second = await go_on(services, "s")
        assert len(second) > len(first)
        assert second[: len(first)] == first
        assert services.registry.models[0] is not former
        # Nothing is left of the former model.
        assert services.sessions.of_model(former) == {}

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one)


def test_a_stopping_server_ends_the_waiting(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        async with services.on_demand.use("a"):
            # Waits for memory.
            waiting = asyncio.create_task(say(services, "b"))
            entry = await services.catalogue.find("b")
            while services.on_demand.state(entry).name != "loading":  # noqa: ASYNC110 - needs a turn or two
                await asyncio.sleep(0)
            await services.on_demand.close()
            with pytest.raises(ServerStoppingError):
                await waiting
            with pytest.raises(ServerStoppingError):
                await say(services, "c")

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one, LLMSERVE_LOAD_WAIT_S=60)


def test_the_kv_cache_is_part_of_what_a_model_takes(tiny_model: Path) -> None:
    async def scenario(services: Services) -> None:
        await load(services, tiny_model, "a")
        (model,) = services.registry.models
        assert model.engine is not None
        info = model.engine.info
        number = {key: int(value) for key, value in info.metadata.items() if value.isdigit()}
        heads = number["llama.attention.head_count_kv"]
        length = info.embedding_length // number["llama.attention.head_count"]
        expected = 256 * number["llama.block_count"] * heads * length * 2 * 2
        assert (info.num_cells, kv_bytes(info)) == (256, expected)
        assert held_bytes([model]) == info.size_bytes + expected

    run(scenario)


def test_requests_that_need_each_others_memory_are_all_answered(folder: Path, tiny_model: Path) -> None:
    one = measure(tiny_model)

    async def scenario(services: Services) -> None:
        loads = []
        services.registry.on_ready.append(lambda model: loads.append(model.id))
        texts = await asyncio.gather(*(say(services, name) for name in "abcabc"))
        assert len(set(texts)) == 1
        # Each is used before another takes its place.
        assert sorted(loads) == ["a", "b", "c"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL_MEMORY_BYTES=one, LLMSERVE_LOAD_WAIT_S=60)
