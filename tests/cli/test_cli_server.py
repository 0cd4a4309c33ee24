"""`ps` and `stop` on running servers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from llmserve.cli import main
from llmserve.cli.client import local_url
from llmserve.cli.run_file import run_file, server_process
from llmserve.server.settings import parse_settings
from serving import Server, get, post, serve, serve_folder, serve_in_process

pytestmark = pytest.mark.usefixtures("cache")


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_the_models_of_a_server(
    tiny_server: Server, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps", "--url", url_of(tiny_server)]) == 0
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.split() == ["ID", "STATE", "BACKEND", "MEMORY", "RUNNING", "WAITING"]
    assert row.split()[:3] == ["llama", "ready", "CPU"]
    assert row.split()[-2:] == ["0", "0"]
    assert main(["ps", "--url", url_of(tiny_server), "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)
    assert (model["id"], model["running"], model["waiting"]) == ("llama", 0, 0)
    assert model["memory_bytes"] > 0.9 * tiny_model.stat().st_size


def test_counts_that_are_hidden_are_left_out(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy in between makes the request one of another machine, which needs a key for the metrics.
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_API_KEY": "k"}) as server:
        monkeypatch.setattr(
            "llmserve.cli.client.Client.get_text", lambda client, path: client.get_json("/v1/models")
        )
        assert main(["ps", "--url", url_of(server)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-2:] == ["-", "-"]


def test_a_model_that_a_request_loaded_is_unloaded(
    tiny_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    shutil.copy(tiny_models / "llama.gguf", tmp_path / "folder" / "a.gguf")
    with serve_folder(tmp_path, tmp_path / "folder") as server:
        assert main(["ps", "--url", url_of(server)]) == 0
        assert "has no model loaded" in capsys.readouterr().err
        body = {"model": "a", "prompt": "hi", "max_tokens": 1}
        assert post(server.port, "/v1/completions", body).status == 200
        assert len(get(server.port, "/health").json["models"]) == 1
        assert main(["stop", "a", "--url", url_of(server)]) == 0
        assert capsys.readouterr().out == "a is unloaded\n"
        assert get(server.port, "/health").json["models"] == []
        assert main(["stop", "b", "--url", url_of(server)]) == 1
        assert "unknown model 'b'" in capsys.readouterr().err


def test_the_model_of_the_start_stays(tiny_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "llama", "--url", url_of(tiny_server)]) == 1
    assert capsys.readouterr().err.startswith("llmserve: the server refuses: ")
    assert tiny_server.states() == ["ready"]


def test_a_server_is_ended(
    tiny_model: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(tmp_path, tiny_model, env={"LLMSERVE_CACHE_DIR": str(cache.parent)}) as server:
        server.wait_until_ready()
        assert server_process(cache.parent, server.port) == server.process.pid
        assert main(["stop", "--url", url_of(server)]) == 0
        assert server.wait() == 0
        assert capsys.readouterr().out == f"the server on port {server.port} has ended\n"
        assert main(["stop", "--url", url_of(server)]) == 1
        assert "no server on port" in capsys.readouterr().err


def test_a_server_elsewhere_is_not_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "--url", "http://example.com"]) == 1
    assert "http://example.com is not on this machine" in capsys.readouterr().err


def test_a_file_without_its_process_names_nobody(cache: Path) -> None:
    folder = cache.parent
    with run_file(folder, 1):
        assert server_process(folder, 1) == os.getpid()
        # A second one on the port changes nothing.
        with run_file(folder, 1):
            assert server_process(folder, 1) == os.getpid()
        assert server_process(folder, 1) == os.getpid()
    assert server_process(folder, 1) is None
    # As a killed process leaves it: the id may be another program's by now.
    (folder / "run" / "1.pid").write_text(f"{os.getpid()}\n")
    assert server_process(folder, 1) is None
    with run_file(folder, 1):
        assert server_process(folder, 1) == os.getpid()


def test_a_cache_that_cannot_be_written_keeps_no_server_from_starting(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with run_file(tmp_path, 1):
        assert server_process(tmp_path, 1) is None


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8082"),
        ({"LLMSERVE_HOST": "0.0.0.0", "LLMSERVE_PORT": "1"}, "http://127.0.0.1:1"),  # noqa: S104
        ({"LLMSERVE_HOST": "::1", "LLMSERVE_ROOT_PATH": "/llm/"}, "http://[::1]:8082/llm"),
        ({"LLMSERVE_HOST": "::", "LLMSERVE_SSL_CERTFILE": "x"}, "https://[::1]:8082"),
    ],
)
def test_the_address_of_this_machines_server(settings: dict[str, str], url: str) -> None:
    assert local_url(parse_settings(settings)) == url
