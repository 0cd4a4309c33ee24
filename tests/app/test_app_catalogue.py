"""Models by id, with real engines: the catalogue, and loading on demand."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path

import pytest

from llmserve import LoadError
from llmserve.server.model_files import model_file
from llmserve.server.models import IDLE_PIN, on_demand
from llmserve.server.refusals import ModelLoadingError, UnknownModelError
from llmserve.server.services import Services
from serving.services import load, run, say


async def ids(services: Services) -> list[str]:
    return [entry.id for entry in await services.catalogue.entries()]


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
