"""Clients of ranking services, as they come from PyPI, against a model that ranks.

What each does is in `clients/rerank_checks.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clients.environment import client_python
from clients.running import names_of, run_program
from serving import serve_folder

pytestmark = pytest.mark.clients

PROGRAM = "rerank_checks"


@pytest.fixture(scope="module")
def found(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What the checks of the program found."""
    models = tmp_path_factory.mktemp("models")
    shutil.copy(tiny_models / "rank-bert.gguf", models)
    with serve_folder(tmp_path_factory.mktemp("server"), models) as server:
        env = {"BASE": f"http://127.0.0.1:{server.port}", "MODEL": "rank-bert", "KEY": "none"}
        return run_program(client_python("clients"), PROGRAM, env, tmp_path_factory.mktemp("client"))


@pytest.mark.parametrize("check", names_of(PROGRAM))
def test_the_client(found: dict[str, str | None], check: str) -> None:
    assert found[check] is None, found[check]
