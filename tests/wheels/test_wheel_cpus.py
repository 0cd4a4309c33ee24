"""The wheel on CPUs that lack what others have, and what was compiled for one CPU on another."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain import ROOT
from wheels.machines import Installed, generated

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the CPUs are of x86-64"),
]


@pytest.fixture(scope="module")
def here(installed: Installed, tiny_model: Path) -> dict[str, object]:
    """What is generated on this CPU."""
    return _result(generated(installed.python, tiny_model))


def _result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "variant"), [("Nehalem", "x64"), ("SandyBridge", "sandybridge"), ("Haswell", "haswell")]
)
def test_the_best_library_for_a_cpu_is_taken(
    installed: Installed, tiny_model: Path, here: dict[str, object], cpu: str, variant: str
) -> None:
    there = _result(generated(installed.python, tiny_model, cpu))
    assert there["cpu"] == [variant]
    assert there["tokens"] == here["tokens"]


def test_what_was_compiled_for_this_cpu_refuses_a_lesser_one(tiny_model: Path) -> None:
    if " avx " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has nothing that Nehalem lacks")
    done = generated(sys.executable, tiny_model, "Nehalem", str(ROOT / "python"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: llmserve was compiled for a CPU with `avx`")
