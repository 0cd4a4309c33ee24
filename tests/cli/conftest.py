from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Server, serve_in_process


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, with an empty folder of models; no other setting is there."""
    for name in ("MODELS_DIR", "LLMSERVE_MODEL", "LLMSERVE_PORT", "LLMSERVE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLMSERVE_CACHE_DIR", str(tmp_path / "cache"))
    models = tmp_path / "cache" / "models"
    models.mkdir(parents=True)
    return models


@pytest.fixture(scope="session")
def tiny_server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a generated model."""
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model) as server:
        yield server
