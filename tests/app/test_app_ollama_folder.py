"""`/api/pull` and `/api/delete`, with a stand-in of the Hub."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from llmserve.server.download import PullError, running, transfer
from llmserve.server.download.running import Downloads
from llmserve.server.download.transfer import RemoteFile
from llmserve.server.refusals import DownloadError
from serving import Answer, Server, get, post, serve_folder, serve_in_process
from serving.hub_site import Site, hub_site

T = TypeVar("T")


async def for_ever(work: Coroutine[Any, Any, T]) -> T:
    """This server does not stop."""
    return await work


NAME = "hf.co/org/Tiny-GGUF:Q4_0"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> Iterator[Site]:
    with hub_site() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(transfer, "_PAUSE_S", 0)
        made.add_repository("Tiny-Q4_0.gguf", "Tiny-Q8_0.gguf", content=tiny_model.read_bytes())
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    return made


@pytest.fixture
def server(tmp_path: Path, folder: Path) -> Iterator[Server]:
    with serve_folder(tmp_path, folder) as made:
        yield made
        assert "Traceback" not in made.log


def pull(server: Server, name: str = NAME, **body: Any) -> Answer:
    return post(server.port, "/api/pull", {"model": name, **body})


def delete(server: Server, name: str) -> Answer:
    return post(server.port, "/api/delete", {"model": name}, method="DELETE")


def statuses(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def names(server: Server) -> list[str]:
    return [model["name"] for model in get(server.port, "/api/tags").json["models"]]


def test_a_model_is_pulled_used_and_removed_by_one_name(site: Site, server: Server, folder: Path) -> None:
    told = statuses(pull(server))
    assert [one["status"] for one in (told[0], *told[-2:])] == [
        "pulling manifest",
        "writing manifest",
        "success",
    ]
    progress = [one for one in told if "total" in one]
    assert [one["completed"] for one in progress] == sorted(one["completed"] for one in progress)
    assert (
        progress[-1]["completed"]
        == progress[-1]["total"]
        == (folder / "org" / "Tiny-Q4_0.gguf").stat().st_size
    )
    assert progress[-1]["status"].removeprefix("pulling ") in progress[-1]["digest"]
    assert names(server) == ["org/Tiny-Q4_0:latest"]
    body = {"model": NAME, "messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 2}}
    assert post(server.port, "/api/chat", body).status == 200
    # It is there: nothing is asked of the Hub.
    before = len(site.seen)
    assert statuses(pull(server))[-1] == {"status": "success"}
    assert len(site.seen) == before
    assert delete(server, NAME).status == 200
    assert delete(server, NAME).status == 404
    assert names(server) == []
    assert get(server.port, "/api/ps").json == {"models": []}
    assert not (folder / "org").exists()


def test_a_pull_that_is_told_nothing_of(site: Site, server: Server) -> None:
    assert pull(server, stream=False).json == {"status": "success"}
    assert post(server.port, "/api/pull", {"name": "hf.co/org/Tiny-GGUF:q8_0", "stream": False}).status == 200
    assert names(server) == ["org/Tiny-Q4_0:latest", "org/Tiny-Q8_0:latest"]
    assert pull(server, f"{site.url}/org/Tiny-GGUF/resolve/c0ffee/Tiny-Q4_0.gguf", stream=False).status == 200
    assert "Tiny-Q4_0:latest" in names(server)


def test_what_cannot_be_pulled(site: Site, server: Server, folder: Path) -> None:
    *_, last = statuses(pull(server, "hf.co/org/None"))
    assert "404" in last["error"]
    assert pull(server, "hf.co/org/None", stream=False).status == 502
    *_, last = statuses(pull(server, "hf.co/org/Tiny-GGUF:Q2_K"))
    assert last == {"error": "org/Tiny-GGUF has no file Q2_K"}
    site.files["/page.gguf"] = b"<html>"
    *_, last = statuses(pull(server, f"{site.url}/page.gguf"))
    assert "is not a GGUF file" in last["error"]
    assert pull(server, "llama3.2").status == 400
    assert names(server) == []
    assert [path.name for path in folder.iterdir()] == [".pull.lock"]


def test_only_what_is_in_the_folder_is_removed(
    site: Site, server: Server, folder: Path, tiny_model: Path
) -> None:
    (folder / "linked.gguf").symlink_to(tiny_model)
    refused = delete(server, "linked")
    assert refused.status == 403
    assert tiny_model.exists()
    assert (folder / "linked.gguf").exists()


def test_the_models_of_a_catalogue_file_are_left_alone(
    tmp_path: Path, folder: Path, tiny_model: Path
) -> None:
    catalogue = tmp_path / "models.toml"
    catalogue.write_text(f'[[models]]\nid = "a"\npath = "{tiny_model}"\n')
    env = {"LLMSERVE_CATALOGUE": str(catalogue), "MODELS_DIR": str(folder)}
    with serve_in_process(tmp_path, env=env) as server:
        for answer in (pull(server), delete(server, "a")):
            assert answer.status == 403
            assert "catalogue file" in answer.json["error"]
    assert tiny_model.exists()


def test_a_download_ends_when_nobody_waits_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_ended = threading.Event()

    def fetch(file: RemoteFile, target: Path, report: Callable[[float], None]) -> Path:
        try:
            while True:
                report(0.5)
        finally:
            has_ended.set()

    monkeypatch.setattr(running, "fetch", fetch)

    async def main() -> None:
        async with aclosing(
            Downloads(folder, for_ever).fetch(RemoteFile("http://a/b.gguf", "b.gguf"))
        ) as reports:
            shares = [(await anext(reports)).share, (await anext(reports)).share]
        assert shares == [0.0, 0.5]

    asyncio.run(main())
    assert has_ended.wait(60)


def test_clients_are_not_told_where_the_folder_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files_of(what: str) -> list[RemoteFile]:
        raise PullError(f"cannot write to {folder}: no space\nhint: LLMSERVE_CACHE_DIR")

    monkeypatch.setattr(running, "files_of", files_of)
    with pytest.raises(DownloadError) as caught:
        asyncio.run(Downloads(folder, for_ever).find("hf:a/b"))
    assert str(caught.value) == "cannot write to the folder of models: no space"


def test_a_server_that_stops_ends_its_downloads(site: Site, tmp_path: Path, folder: Path) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def fetch(file: RemoteFile, target: Path, report: Callable[[float], None]) -> Path:
        has_begun.set()
        may_end.wait(60)
        return target

    told: list[Answer] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "fetch", fetch)
        with serve_folder(tmp_path, folder) as server:
            asking = threading.Thread(target=lambda: told.append(pull(server)))
            asking.start()
            assert has_begun.wait(60)
        asking.join()
        may_end.set()
    assert statuses(told[0])[-1] == {"error": "the request was cancelled: the server is stopping"}
