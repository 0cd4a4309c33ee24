"""The wheel under test: the newest that `make wheel` has built."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.environment import client_python
from toolchain import ROOT
from wheels.machines import Installed, install


@pytest.fixture(scope="session")
def wheel() -> Path:
    built = sorted((ROOT / "dist").glob("llmserve-*-manylinux_*.whl"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("there is no wheel: `make wheel`")
    return built[-1]


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of `auditwheel` and `uv`."""
    return Path(client_python("wheel")).parent


@pytest.fixture(scope="session")
def installed(wheel: Path, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of the oldest Python."""
    return install(wheel, tools, "uv", 11, tmp_path_factory.mktemp("installed"))
