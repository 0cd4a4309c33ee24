"""Starting: what is printed, what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from serving import get, serve, serve_with_uvicorn
from serving.process import environment

pytestmark = pytest.mark.model


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmserve", *arguments]
    return subprocess.run(
        command, env=environment(env or {}), capture_output=True, text=True, check=False, timeout=120
    )


def test_half_written_sessions_of_a_killed_server_go(tiny_model: Path, tmp_path: Path) -> None:
    stale, other = tmp_path / ".llmserve-1-0.tmp", tmp_path / "kept.session"
    for path in (stale, other):
        path.write_bytes(b"x")
        os.utime(path, (0, 0))
    with serve(tmp_path, tiny_model, env={"SESSIONS_DIR": str(tmp_path)}) as server:
        server.wait_until_ready()
        assert not stale.exists()
        assert other.exists()


def test_serve_prints_what_it_serves(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--context-length", "1024", "--max-sequences", "3") as server:
        server.wait_for_log(f"loading {tiny_model.name}: 100 %", "try: curl ")
        assert re.search(rf"serves {tiny_model.stem} \(llama, \d+\.\dK parameters\)\n", server.log)
        for line in (
            r"context length +1024 tokens",
            r"KV cells +3072 \(per_sequence, f16/f16\)",
            r"sequences +3 at once",
            r"weights +[0-9.]+ [KM]iB",
            r"KV cache +[0-9.]+ [KM]iB",
            r"threads +1\n",
            rf"address +http://127\.0\.0\.1:{server.port}\n",
            rf"documentation +http://127\.0\.0\.1:{server.port}/docs\n",
        ):
            assert re.search(line, server.log), line
        command = re.search(r"try: (curl .*)\n", server.log)
        assert command is not None
        done = subprocess.run(["/bin/sh", "-c", command[1]], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("data: [DONE]\n\n")


def test_a_pod_beside_a_service_of_its_name_starts(tiny_model: Path, tmp_path: Path) -> None:
    env = {
        "LLMSERVE_PORT": "tcp://10.0.0.1:8082",
        "LLMSERVE_PORT_8082_TCP": "tcp://10.0.0.1:8082",
        "LLMSERVE_SERVICE_HOST": "10.0.0.1",
        "LLMSERVE_GATEWAY_PORT": "tcp://10.0.0.2:80",
        "LLMSERVE_IMAGE": "registry.example/llmserve",
    }
    with serve(tmp_path, tiny_model, env=env) as server:
        server.wait_for_log("serves ")
        lines = server.log.splitlines()
        assert sum("Kubernetes" in line for line in lines) == 1
        assert sum("LLMSERVE_IMAGE is not a setting" in line for line in lines) == 1


def test_a_model_that_cannot_be_loaded_ends_serve_with_the_reason(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model at all")
    done = run("serve", str(bad), "--port", "0")
    assert done.returncode == 1
    first, hint = done.stderr.splitlines()
    assert first.startswith(f"llmserve: cannot load {bad}: this is not a GGUF file")
    assert hint.startswith("hint: ")


def test_a_port_that_is_taken(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model) as server:
        server.wait_until_ready()
        done = run("serve", str(tiny_model), "--port", str(server.port))
        assert (done.returncode, done.stderr) == (
            1,
            f"llmserve: 127.0.0.1:{server.port} is in use by another program\n"
            "hint: choose another port with --port; 0 picks a free one\n",
        )


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (["serve", "--threads", "0"], {}, "llmserve: --threads must be from 1 to 1024, got 0\n"),
        (
            ["serve"],
            {"LLMSERVE_PORTS": "1"},
            "llmserve: LLMSERVE_PORTS is not a setting of llmserve\nhint: did you mean LLMSERVE_PORT?\n",
        ),
    ],
)
def test_bad_settings_are_one_sentence(arguments: list[str], env: dict[str, str], message: str) -> None:
    done = run(*arguments, env=env)
    assert (done.returncode, done.stderr) == (2, message)


def imported_by(code: str, *names: str) -> set[str]:
    code = f"import sys; {code}; print(*set({names}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_begins_to_load_before_it_imports_the_server() -> None:
    heavy = ("asyncio", "anyio", "jinja2", "orjson", "starlette", "uvicorn", "llmserve.engine")
    assert imported_by("from llmserve.cli import main", *heavy) == set()


def test_a_start_imports_no_more_than_the_first_request_needs() -> None:
    needed = ("jinja2", "orjson", "starlette")
    late = (
        "grpc",
        "httpx",
        "importlib.metadata",
        "jsonschema",
        "llmserve.server.download.pull",
        "llmserve.server.grammars.translation",
        "msgpack",
        "multiprocessing",
        "opentelemetry",
        "pydantic",
        "trio",
        "zipfile",
        "zmq",
    )
    assert imported_by("from llmserve.app import app", *needed, *late) == set(needed)


def test_version() -> None:
    done = run("--version")
    assert re.fullmatch(r"llmserve \d+\.\d+\.\d+\S*\n", done.stdout)


def test_bad_settings_under_uvicorn_end_it_with_the_reason(tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_THREADS": "none"}) as server:
        assert server.wait() == 3
        assert "LLMSERVE_THREADS must be a whole number, got 'none'" in server.log
        assert "Traceback" not in server.log


@pytest.mark.parametrize("by_environment", [False, True])
def test_more_than_one_uvicorn_worker_is_refused(tmp_path: Path, by_environment: bool) -> None:
    arguments = [] if by_environment else ["--workers", "2"]
    env = {"WEB_CONCURRENCY": "2"} if by_environment else {}
    with serve_with_uvicorn(tmp_path, *arguments, env=env) as server:
        assert server.wait() == 0  # uvicorn's own way
        assert "llmserve runs in one process" in server.log
        assert "Application startup complete" not in server.log
        assert "several servers on ports of their own behind a proxy" in server.log


def test_serve_takes_no_notice_of_web_concurrency(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, env={"WEB_CONCURRENCY": "4"}) as server:
        server.wait_until_ready()
        assert get(server.port, "/health").status == 200
