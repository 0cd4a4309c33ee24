"""Runs the tests with real clients, unless nothing that they touch has changed since they passed here.

In CI (variable `CI`) they always run. Each file of tests has a stamp of its own in the cache: a change of one
dialect runs its clients only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native import cache_dir  # noqa: E402

MARK = "pytest.mark.clients"
SERVER = ROOT / "python" / "llmserve" / "server"
# Dialects that only some clients speak, and which those of a file do. Other files' clients may speak any.
DIALECTS = frozenset(("anthropic", "grpc", "llamatik", "ollama", "openai", "rerank", "sie"))
SPOKEN: dict[str, set[str]] = {
    "test_app_lm_eval.py": {"openai"},
    "test_app_ollama_clients.py": {"ollama"},
    "test_app_openai_clients.py": {"anthropic", "openai"},
    "test_app_ray_serve.py": {"openai"},
    "test_app_rerank_clients.py": {"rerank"},
    "test_app_sie_sdk.py": {"sie"},
    "test_build_docs.py": {"ollama"},
    "test_build_helm.py": set(),
}
# What the tests of a file touch beside that.
OWN = {
    "test_app_ray_serve.py": (
        "benches/ray_fleet.py",
        "python/llmserve/ray/*.py",
        "python/llmserve/routing/*.py",
    ),
    "test_build_helm.py": ("deploy/helm/**/*", "deploy/kubernetes/**/*.yaml"),
}
# What all of them touch beside the server.
SHARED = (
    "build_support/environments.py",
    "requirements/*.lock",
    "tests/clients/**/*",
    "tests/conftest.py",
    "tests/serving/*.py",
)


def main() -> int:
    """Runs the files whose tests are due, and notes which passed."""
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text())
    due = [file for file in files if os.environ.get("CI") or not _has_passed(file)]
    for file in sorted(set(files) - set(due)):
        print(f"{file.name}: nothing that its clients touch has changed since they passed", flush=True)
    if not due:
        return 0
    states = {file: _state(file) for file in due}
    status = subprocess.run([sys.executable, "-m", "pytest", "-m", "clients", *due], cwd=ROOT).returncode
    if status == 0:
        for file, state in states.items():
            stamp = _stamp(file)
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.write_text(state)
    return status


def _has_passed(file: Path) -> bool:
    stamp = _stamp(file)
    return stamp.is_file() and stamp.read_text() == _state(file)


def _stamp(file: Path) -> Path:
    return cache_dir() / "test-clients" / f"{file.stem}.passed"


def _state(file: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(_touched(file)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _touched(file: Path) -> Iterator[Path]:
    yield file
    for pattern in (*SHARED, *OWN.get(file.name, ())):
        yield from (path for path in ROOT.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)
    silent = DIALECTS - SPOKEN.get(file.name, DIALECTS)
    for path in SERVER.rglob("*.py"):
        parts = path.relative_to(SERVER).parts
        if parts[0] != "apis" or parts[1] not in silent:
            yield path
    # Programs of the pages are run, too.
    yield from (ROOT / "docs" / f"{name}.md" for name in SPOKEN.get(file.name, DIALECTS))


if __name__ == "__main__":
    sys.exit(main())
