from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from serving import ServerProcess, serve

MAX_BODY_BYTES = 200_000


@pytest.fixture(scope="session")
def server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One `llmserve serve` with the default model for all tests that leave it as it was."""
    env = {"LLMSERVE_MAX_BODY_BYTES": str(MAX_BODY_BYTES)}
    with serve(tmp_path_factory.mktemp("server"), model_path, env=env) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    """The `openai` client of that server."""
    url = f"http://127.0.0.1:{server.port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300) as client:
        yield client


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A models folder with a, b and c."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in "abc":
        shutil.copy(tiny_model, folder / f"{name}.gguf")
    return Path(os.path.realpath(folder))
