"""The project's documents, and their commands and programs run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from toolchain import ROOT

PATHS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in PATHS}
ADDRESS = "http://127.0.0.1:8082"
_BIN = f"{Path(sys.executable).parent}/"
LIMIT_S = 300


def blocks(language: str, page: str) -> list[str]:
    """The code of this language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENTS[page], re.MULTILINE | re.DOTALL)


def environment() -> dict[str, str]:
    """The user's, as the documents assume it."""
    return {name: value for name, value in os.environ.items() if name != "LLMSERVE_CARGO_FEATURES"}


def run_commands(commands: str, address: str = ADDRESS, folder: Path = ROOT) -> str:
    """Runs commands in a shell, with the interpreter of the tests and the server at `address`."""
    script = commands.replace(".venv/bin/", _BIN).replace(ADDRESS, address)
    return _printed(["bash", "-euc", script], folder)


def run_program(program: str, folder: Path, *arguments: str) -> str:
    """Runs a Python program, whose warnings are errors."""
    path = folder / "program.py"
    path.write_text(program)
    return _printed([sys.executable, "-W", "error", str(path), *arguments], folder)


def _printed(command: list[str], folder: Path) -> str:
    result = subprocess.run(
        command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (result.returncode, result.stderr) == (0, ""), (result.returncode, result.stderr)
    return result.stdout
