"""Replicas of a tiny model in Ray Serve, as Ray comes from PyPI.

What they do is in `clients/ray_checks.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import llmserve
from clients.environment import client_python
from clients.running import names_of, run_program
from serving.process import TESTS

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(sys.platform != "linux", reason="the fleet is tested on Linux"),
]

PROGRAM = "ray_checks"
# Ray's autoscaler looks at its replicas every ten seconds by default.
LOOKS = {
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
}


@pytest.fixture(scope="module")
def found(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What the checks of the program found."""
    package = Path(llmserve.__file__).parent.parent
    env = {
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent, package))),
        "MODEL": str(tiny_model),
        "SESSIONS": str(tmp_path_factory.mktemp("sessions")),
        **LOOKS,
    }
    return run_program(client_python("ray"), PROGRAM, env, tmp_path_factory.mktemp("client"))


@pytest.mark.parametrize("check", names_of(PROGRAM))
def test_the_fleet(found: dict[str, str | None], check: str) -> None:
    assert found[check] is None, found[check]
