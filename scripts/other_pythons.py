"""Runs a short part of the Python tests on the other interpreters that the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from environments import InstallError, environment_python, find_python  # noqa: E402

MINORS = (11, 12, 13)
# What rests on asyncio, typing, dataclasses, argparse, tomllib and sockets: they differ between versions.
UNITS = (
    *("callbacks", "catalogue_file", "connection", "exchange", "fields", "gate", "generation", "grpc"),
    *("lifecycle", "merging", "openai_convert", "pipelining", "schema", "settings", "signals", "sse"),
    *("tasks", "workers"),
)
# Units, a generation on every route of a server, and an engine in two loops.
TESTS = (
    *(f"tests/app/test_unit_{name}.py" for name in UNITS),
    "tests/app/test_app_every_route.py::test_sampling",
    "tests/test_api_loops.py::test_one_wake_up_serves_many_streams",
)


def main() -> int:
    """Runs them on each interpreter but this one's version."""
    statuses = [_run(minor) for minor in MINORS if minor != sys.version_info.minor]
    return 1 if any(statuses) else 0


def _run(minor: int) -> int:
    base = find_python([minor])
    if base is None:
        print(f"there is no Python 3.{minor}")
        return 0
    try:
        python = environment_python(base, "dev")
    except InstallError as error:
        print(f"Python 3.{minor}: {error}")
        return 0 if error.is_offline else 1
    print(f"Python 3.{minor}:", flush=True)
    # The extension is one for all versions, and lies in the checkout.
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
