"""The wheel where there is neither pip nor a compiler: it serves the default model and answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llmserve.server.download import DEFAULT_MODEL
from serving import ServerProcess, free_port, post
from wheels.machines import bare_environment, install

pytestmark = [pytest.mark.wheel, pytest.mark.slow]

QUESTION = {
    "model": Path(DEFAULT_MODEL.file_name).stem,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "max_tokens": 16,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty at first: one of the servers downloads the model."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("maker", ["venv", "uv"])
@pytest.mark.parametrize("minor", [11, 12, 13])
def test_it_serves(wheel: Path, tools: Path, tmp_path: Path, cache: Path, maker: str, minor: int) -> None:
    installed = install(wheel, tools, maker, minor, tmp_path)
    port = free_port()
    log_file = tmp_path / "log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [installed.command, "serve", "--port", str(port)],
            env=bare_environment(cache),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        server = ServerProcess(process, port, log_file)
        server.wait_until_ready()
        answer = post(port, "/v1/chat/completions", QUESTION)
        assert answer.status == 200, server.log
        assert answer.json["choices"][0]["message"]["content"].strip()
    finally:
        process.kill()
        process.wait()
