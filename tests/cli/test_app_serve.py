"""`llmserve serve` as it is started, and what it prints."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from serving import Server, get, post, serve, serve_with_uvicorn, wait_until
from serving.process import serve_without_model

pytestmark = pytest.mark.model

TIMED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO llmserve\.requests \[\S+\] "


def request_lines(log: str) -> list[str]:
    """The lines about requests, without time and id."""
    return [re.sub(TIMED, "", line) for line in log.splitlines() if re.match(TIMED, line)]


@pytest.fixture
def cache(tiny_model: Path, tmp_path: Path) -> Path:
    """A cache folder with one model."""
    models = tmp_path / "cache" / "models"
    models.mkdir(parents=True)
    (models / "Tiny-Story.gguf").symlink_to(tiny_model.resolve())
    return models.parent


def test_a_model_is_served_by_a_part_of_its_name(cache: Path, tmp_path: Path) -> None:
    with serve(tmp_path, Path("tiny-s"), "-c", "1k", env={"LLMSERVE_CACHE_DIR": str(cache)}) as server:
        server.wait_for_log("context length  1024 tokens per sequence")


def test_the_models_id_can_be_chosen(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--alias", "Org/story") as server:
        server.wait_until_ready()
        assert [model["id"] for model in get(server.port, "/v1/models").json["data"]] == ["Org/story"]
        answer = post(server.port, "/v1/completions", {"model": "Org/story", "prompt": "a", "max_tokens": 2})
        assert (answer.status, answer.json["model"]) == (200, "Org/story")


def test_a_folder_of_models_is_served_without_a_download(tiny_model: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "story.gguf").symlink_to(tiny_model.resolve())
    # Nothing could be written there.
    env = {"MODELS_DIR": str(models), "LLMSERVE_CACHE_DIR": "/dev/null/cache"}
    with serve_without_model(tmp_path, env=env) as server:
        server.wait_for_log(f"serves the models of {models}")
        assert [model["id"] for model in get(server.port, "/v1/models").json["data"]] == ["story"]


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (
            ["missing.gguf"],
            {},
            "missing.gguf: there is no such file\nhint: llmserve list shows the models that are there\n",
        ),
        ([], {"MODELS_DIR": "/nope"}, "MODELS_DIR must be a folder that exists, got '/nope'\n"),
        (
            [],
            {"LLMSERVE_CACHE_DIR": "/dev/null/cache"},
            "cannot write to the models' folder /dev/null/cache/models: Not a directory\n"
            "hint: LLMSERVE_CACHE_DIR or MODELS_DIR names another folder\n",
        ),
        (
            ["--catalogue", "none.toml"],
            {},
            "the catalogue none.toml cannot be read: No such file or directory\n",
        ),
    ],
)
def test_a_start_that_fails_prints_no_more_than_why(
    tmp_path: Path, arguments: list[str], env: dict[str, str], message: str
) -> None:
    with serve_without_model(tmp_path, *arguments, env=env) as server:
        assert server.wait() in (1, 2)
        assert server.log == f"llmserve: {message}"


def test_a_truncated_model_is_one_error(model_path: Path, tmp_path: Path) -> None:
    with model_path.open("rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(1 << 24))
    with serve(tmp_path, Path("cut.gguf")) as server:
        assert server.wait() == 1
        first, hint = server.log.splitlines()
        assert first.startswith("llmserve: cannot load cut.gguf: the file ends after 16777216 bytes")
        assert hint.startswith("hint: ")


def test_a_port_that_is_taken_is_told_before_the_model_is_looked_at(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve(tmp_path, Path("missing.gguf"), "--port", str(port)) as server:
            assert server.wait() == 1
            assert server.log.startswith(f"llmserve: 127.0.0.1:{port} is in use by another program\nhint: ")


def _has_request_lines(server: Server, count: int) -> bool:
    return len(request_lines(server.log)) == count


def test_each_request_has_a_line_without_its_text(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model) as server:
        server.wait_until_ready()
        for path in ("/health", "/metrics"):
            assert get(server.port, path).status == 200
        body = {"model": tiny_model.stem, "prompt": "secret words", "max_tokens": 3}
        requests = [
            ("/v1/completions", {**body, "ignore_eos": True}),
            ("/v1/completions", {**body, "ignore_eos": True, "stream": True}),
            ("/nowhere?secret=1", {}),
            ("/v1/completions", {**body, "model": "other"}),
        ]
        # A line comes after its answer: one request after the other, or lines change places.
        for count, (path, fields) in enumerate(requests, 1):
            post(server.port, path, fields)
            wait_until(partial(_has_request_lines, server, count))
        written, streamed, unknown, refused = request_lines(server.log)
        used = rf" model={tiny_model.stem} tokens=\d+\+3 finish=length"
        for line in (written, streamed):
            assert re.fullmatch(rf"POST /v1/completions 200 \d+\.\d{{3}} s{used}", line)
        assert re.fullmatch(r"POST /nowhere 404 \d+\.\d{3} s", unknown)
        assert re.fullmatch(r"POST /v1/completions 404 \d+\.\d{3} s", refused)
        assert "secret" not in server.log


def test_the_log_can_be_json(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--log-format", "json") as server:
        server.wait_until_ready()
        get(server.port, "/v1/models", headers={"X-Request-ID": "mine"})
        server.wait_for_log('"mine"')
        (line,) = (json.loads(line) for line in server.log.splitlines() if line.startswith("{"))
        assert line.pop("time").endswith("+00:00")
        assert line.pop("seconds") >= 0
        assert line.pop("message").startswith("GET /v1/models 200 ")
        assert line == {
            "level": "info",
            "logger": "llmserve.requests",
            "request_id": "mine",
            "method": "GET",
            "path": "/v1/models",
            "status": 200,
        }


def test_a_file_of_settings_works_under_uvicorn_too(tiny_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "llmserve.toml"
    file.write_text(f"model = '{tiny_model}'\nserved_model_name = 'story'")
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_CONFIG": str(file)}) as server:
        server.wait_until_ready()
        assert [model["id"] for model in get(server.port, "/v1/models").json["data"]] == ["story"]


def test_a_unix_socket(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serve(tmp_path, tiny_model, "--uds", str(path)) as server:
        server.wait_for_log(f"address         unix:{path}")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
            with sock.makefile("rb") as answer:
                assert answer.read().startswith(b"HTTP/1.1 200 OK")
        server.process.terminate()
        assert server.wait() == 0
        assert not path.exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_https(tiny_model: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
    options += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *options], check=True, capture_output=True)
    files = ["--ssl-certfile", str(certificate), "--ssl-keyfile", str(key)]
    with serve(tmp_path, tiny_model, *files) as server:
        server.wait_for_log(f"address         https://127.0.0.1:{server.port}\n")
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()


def test_under_a_path_of_a_proxy(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--root-path", "/llm/") as server:
        server.wait_until_ready()
        server.wait_for_log(f"documentation   http://127.0.0.1:{server.port}/llm/docs\n")
        # Proxies remove the path or leave it.
        paths = ("/v1/models", "/llm/v1/models")
        assert [get(server.port, path).status for path in paths] == [200, 200]
        wait_until(lambda: all(f"GET {path} 200" in server.log for path in paths))
        assert get(server.port, "/llm/nope").status == 404
        assert get(server.port, "/llmv1/models").status == 404


def child_of(process: subprocess.Popen[bytes]) -> int:
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the child below /proc")
def test_a_supervised_server_is_there_again_after_it_was_killed(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--supervise") as server:
        server.wait_until_ready()
        first = child_of(server.process)
        os.kill(first, signal.SIGKILL)
        # The connection waits until somebody serves again.
        assert get(server.port, "/live").status == 200
        server.wait_for_log("killed by SIGKILL")
        server.wait_until_ready()
        second = child_of(server.process)
        assert second != first
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(second, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the child below /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT])
def test_no_server_outlives_its_supervisor(tiny_model: Path, tmp_path: Path, number: signal.Signals) -> None:
    with serve(tmp_path, tiny_model, "--supervise") as server:
        server.wait_until_ready()
        child = child_of(server.process)
        server.signal(number)
        server.wait()
        wait_until(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child))


def _is_zombie(pid: int) -> bool:
    # Whoever adopts an orphan here may never wait for it.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_supervised_server_that_cannot_start_is_not_started_again(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with serve(tmp_path, broken, "--supervise") as server:
        assert server.wait() == 1
        assert server.log.count("cannot load") == 1
