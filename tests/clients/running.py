"""Runs a client's program in its environment, from a test."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from serving.process import environment

HERE = Path(__file__).resolve().parent
# Time limit for a whole program, which ends one that hangs.
LIMIT_S = 600
# No telemetry, no price lists from the network.
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
    "DO_NOT_TRACK": "1",
    "NO_PROXY": "127.0.0.1",
}


def names_of(program: str) -> list[str]:
    """The checks of a program, without running it."""
    tree = ast.parse((HERE / f"{program}.py").read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if node.name.startswith("check_")]


def run_program(python: str, program: str, env: Mapping[str, str], folder: Path) -> dict[str, str | None]:
    """Runs all checks of a program: name and, of those that failed, the traceback."""
    made = subprocess.run(
        [python, "-m", f"clients.{program}"],
        env=environment({**QUIET, **env}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    results = [json.loads(line) for line in made.stdout.splitlines() if line.startswith('{"check"')]
    found: dict[str, str | None] = {result["check"]: result["failure"] for result in results}
    assert made.returncode == 0, made.stderr
    return found
