from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import MODEL, ServerProcess, serve


@pytest.fixture(scope="session")
def model() -> Path:
    if not MODEL.is_file():
        pytest.skip("the default model is not there: `llmserve pull` gets it")
    return MODEL


@pytest.fixture(scope="session")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One `llmserve serve` with the default model for all tests that leave it as it was."""
    with serve(tmp_path_factory.mktemp("server"), env={"LLMSERVE_MAX_BODY_BYTES": "200000"}) as running:
        running.wait_until_ready()
        yield running
