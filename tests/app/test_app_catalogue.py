"""Models by id, with real engines: the catalogue, loading on demand, unloading."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from llmserve import LoadError
from llmserve.server.apis.llamatik.state import GenerationModel
from llmserve.server.model_files import model_file
from llmserve.server.models import IDLE_PIN, on_demand
from llmserve.server.models.memory import held_bytes, kv_bytes
from llmserve.server.refusals import ModelKindError, ModelLoadingError, ServerStoppingError, UnknownModelError
from llmserve.server.services import Services
from llmserve.server.settings import parse_settings

SMALL = {"LLMSERVE_CONTEXT_LENGTH": "256", "LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_THREADS": "1"}
Scenario = Callable[[Services], Awaitable[None]]


def run(scenario: Scenario, **environ: object) -> None:
    async def main() -> None:
        settings = parse_settings({**SMALL, **{name: str(value) for name, value in environ.items()}})
        services = Services.create(settings)
        try:
            await scenario(services)
        finally:
            await services.on_demand.close()
            await services.registry.close()

    asyncio.run(main())


async def load(services: Services, path: Path, pin: str) -> None:
    with services.registry.load(path, pin) as ticket:
        await ticket.wait()


async def ids(services: Services) -> list[str]:
    return [entry.id for entry in await services.catalogue.entries()]


async def say(services: Services, model_id: str) -> str:
    async with services.on_demand.use(model_id) as used:
        assert used.entry.id == model_id
        return (await used.engine.generate("sea", max_tokens=3, temperature=0)).text


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A models folder with a, b and c."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in "abc":
        shutil.copy(tiny_model, folder / f"{name}.gguf")
    return Path(os.path.realpath(folder))


@pytest.mark.parametrize("target", ["blobs/0123abcd", "other.gguf"])
def test_a_link_names_the_model(tiny_model: Path, tmp_path: Path, target: str) -> None:
    """Also in `/health` and `/metrics`, whatever the file behind it is called."""
    (tmp_path / "blobs").mkdir()
    shutil.copy(tiny_model, tmp_path / target)
    link = tmp_path / "Model-Q4.gguf"
    link.symlink_to(target)

    async def scenario(services: Services) -> None:
        await load(services, model_file(link), "start")
        assert await ids(services) == ["Model-Q4"]
        assert [report.id for report in services.registry.states()] == ["Model-Q4"]
        await say(services, "Model-Q4")

    run(scenario, LLMSERVE_MODEL=link)


def test_a_split_model_behind_links_loads(tiny_models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    for number in (1, 2):
        part = f"split-0000{number}-of-00002.gguf"
        shutil.copy(tiny_models / part, tmp_path / f"blob{number}")
        (folder / part).symlink_to(tmp_path / f"blob{number}")

    async def scenario(services: Services) -> None:
        assert await ids(services) == ["split-00001-of-00002"]
        await say(services, "split-00001-of-00002")

    run(scenario, MODELS_DIR=folder)


def measure(tiny_model: Path) -> int:
    """The memory of one of the models."""
    sizes = []

    async def scenario(services: Services) -> None:
        await load(services, tiny_model, "a")
        sizes.append(held_bytes(services.registry.models))

    run(scenario)
    return sizes[0]


def test_ids_and_what_they_find(folder: Path, tiny_model: Path) -> None:
    (folder / "a.gguf").rename(folder / "Org__Name.gguf")

    async def scenario(services: Services) -> None:
        assert await ids(services) == [tiny_model.stem, "Org/Name", "b", "c"]
        for model_id in ("Org/Name", "Org__Name"):
            entry = await services.catalogue.find(model_id)
            assert (entry.id, entry.path) == ("Org/Name", folder / "Org__Name.gguf")
        for unknown in ("Org/Nam", "org/name", "", str(tiny_model), "b.gguf", "a"):
            with pytest.raises(UnknownModelError):
                await services.catalogue.find(unknown)
        # It is there as soon as it is asked for.
        shutil.copy(tiny_model, folder / "late.gguf")
        assert (await services.catalogue.find("late")).path == folder / "late.gguf"
        (folder / "b.gguf").unlink()
        assert "b" not in await ids(services)

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL=tiny_model)


def test_the_start_model_in_the_folder_is_there_once(folder: Path) -> None:
    (folder / "a.gguf").rename(folder / "Org__Name.gguf")

    async def scenario(services: Services) -> None:
        assert await ids(services) == ["Org/Name", "b", "c"]

    run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL=folder / "Org__Name.gguf")


def test_the_start_model_keeps_its_id(
    folder: Path, tmp_path: Path, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Path(os.path.realpath(tmp_path)) / "a.gguf"
    shutil.copy(tiny_model, other)

    async def scenario(services: Services) -> None:
        assert await ids(services) == ["a", "b", "c"]
        assert (await services.catalogue.find("a")).path == other

    with caplog.at_level(logging.WARNING):
        run(scenario, MODELS_DIR=folder, LLMSERVE_MODEL=other)
    assert "the model id a is taken by the model that the server was started with" in caplog.text


def test_a_file_takes_the_folders_place(folder: Path, tmp_path: Path) -> None:
    catalogue = tmp_path / "models.toml"
    catalogue.write_text(
        f'[[models]]\nid = "Org/A"\npath = "{folder}/a.gguf"\nmax_new_tokens = 5\ncontext_length = 128'
    )

    async def scenario(services: Services) -> None:
        assert await ids(services) == ["Org/A"]
        async with services.on_demand.use("Org__A") as used:
            assert used.engine.info.context_length == 128
            assert used.entry.max_new_tokens == 5

    run(scenario, MODELS_DIR=folder, LLMSERVE_CATALOGUE=catalogue)


def test_what_was_loaded_by_path_has_an_id_too(tiny_model: Path) -> None:
    async def scenario(services: Services) -> None:
        with pytest.raises(UnknownModelError):
            await services.catalogue.find(tiny_model.stem)
        await load(services, tiny_model, "a")
        assert await ids(services) == [tiny_model.stem]
        async with services.on_demand.use(tiny_model.stem) as used:
            assert used.model is services.registry.models[0]
        # Whoever loaded it cannot take it away from those who use it by its id.
        services.registry.unpin(tiny_model, "a")
        assert await ids(services) == [tiny_model.stem]

    run(scenario)


def test_a_model_that_somebody_loaded_is_shared(folder: Path) -> None:
    async def scenario(services: Services) -> None:
        await load(services, folder / "a.gguf", "other")
        (model,) = services.registry.models
        async with services.on_demand.use("a") as used:
            assert used.model is model
        services.registry.unpin(folder / "a.gguf", "other")
        assert services.registry.models == (model,)
        assert await say(services, "a")

    run(scenario, MODELS_DIR=folder)


def test_a_load_goes_on_without_those_who_asked(folder: Path) -> None:
    async def scenario(services: Services) -> None:
        entry = await services.catalogue.find("a")
        assert services.on_demand.state(entry).name == "available"
        with pytest.raises(ModelLoadingError):
            async with services.on_demand.use("a", wait_s=0):
                pass
        assert services.on_demand.state(entry).name == "loading"
        gone = asyncio.create_task(say(services, "a"))
        await asyncio.sleep(0)
        gone.cancel()
        assert await say(services, "a")
        assert services.on_demand.state(entry).name == "loaded"
        (model,) = services.registry.models
        assert model.pins == {IDLE_PIN}

    run(scenario, MODELS_DIR=folder)


def test_many_requests_are_one_load(folder: Path) -> None:
    async def scenario(services: Services) -> None:
        texts = await asyncio.gather(*(say(services, "a") for _ in range(8)))
        assert len(set(texts)) == 1
        assert len(services.registry.models) == 1

    run(scenario, MODELS_DIR=folder)


def test_a_failed_load_is_remembered_for_a_while(
    folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.gguf").write_bytes(b"no model")

    async def scenario(services: Services) -> None:
        entry = await services.catalogue.find("a")
        with pytest.raises(LoadError) as first:
            await say(services, "a")
        assert first.value.reason == "not_gguf"
        (failed,) = services.registry.models
        shutil.copy(tiny_model, folder / "a.gguf")
        with pytest.raises(LoadError) as again:
            await say(services, "a")
        assert (str(again.value), again.value.reason) == (str(first.value), "not_gguf")
        # Nothing was loaded for the second.
        assert services.registry.models == (failed,)
        state = services.on_demand.state(entry)
        assert state.name == "failed"
        assert str(state.failure) == str(first.value)
        monkeypatch.setattr(on_demand, "RETRY_S", 0.0)
        assert services.on_demand.state(entry).name == "available"
        assert await say(services, "a")

    run(scenario, MODELS_DIR=folder)


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
        generation = GenerationModel(services.registry, "llamatik")
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
