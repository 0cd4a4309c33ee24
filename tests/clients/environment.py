"""Virtual environments for clients: made once for each lock file and interpreter, in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements"
# What pip says where it reaches no index at all.
NO_INDEX = "(from versions: none)"


def client_python(name: str, *, oldest: tuple[int, int] = (3, 10)) -> str:
    """An interpreter that has everything of `requirements/NAME.lock`.

    Skips the test where there is no interpreter of this version, or no package index.
    """
    base = next((python for python in _interpreters(oldest) if _is_at_least(python, oldest)), None)
    if base is None:
        pytest.skip(f"{name} needs Python {oldest[0]}.{oldest[1]} or newer, and there is none")
    lock = REQUIREMENTS / f"{name}.lock"
    version = subprocess.run([base, "-VV"], check=True, capture_output=True).stdout
    key = hashlib.sha256(lock.read_bytes() + version).hexdigest()[:12]
    folder = _cache() / f"{name}-{key}"
    python = folder / "bin" / "python"
    with _only_one(folder.with_suffix(".lock")):
        if not (folder / ".complete").is_file():
            _make(base, folder, lock)
    return str(python)


def _cache() -> Path:
    cache = Path(os.environ.get("LLMSERVE_CACHE_DIR") or Path.home() / ".cache" / "llmserve")
    folder = cache / "test-clients"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _interpreters(oldest: tuple[int, int]) -> Iterator[str]:
    """Interpreters that may be new enough, as far as their names tell."""
    yield sys.executable
    minors = range(oldest[1], oldest[1] + 4)
    for minor in minors:
        for folder in sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*")):
            yield str(folder / "bin" / "python")
    yield from filter(None, (shutil.which(f"python3.{minor}") for minor in minors))


def _is_at_least(python: str, oldest: tuple[int, int]) -> bool:
    code = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {oldest})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(base: str, folder: Path, lock: Path) -> None:
    subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--requirement", str(lock)]
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", *options]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode == 0:
        (folder / ".complete").touch()
        return
    shutil.rmtree(folder)
    if NO_INDEX in made.stderr:
        pytest.skip(f"no package index for {lock.name}: {made.stderr.strip()[-200:]}")
    pytest.fail(f"{lock.name} cannot be installed: {made.stderr.strip()[-2000:]}", pytrace=False)
