"""Virtual environments beside the checkout's: made once for each lock file and interpreter, in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from native import cache_dir

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
# What pip says where it reaches no index at all.
NO_INDEX = "(from versions: none)"


class InstallError(RuntimeError):
    """A lock file cannot be installed; `is_offline` where no package index can be reached."""

    def __init__(self, lock: Path, reason: str) -> None:
        super().__init__(f"{lock.name} cannot be installed: {reason.strip()[-2000:]}")
        self.is_offline = NO_INDEX in reason


def find_python(minors: Iterable[int]) -> str | None:
    """An interpreter of the first of these minor versions of Python 3 that the machine has."""
    for minor in minors:
        for python in _named(minor):
            if _has_version(python, minor):
                return python
    return None


def _named(minor: int) -> Iterator[str]:
    """Interpreters of this version, as far as their names tell."""
    if sys.version_info.minor == minor:
        yield sys.executable
    for folder in sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*")):
        yield str(folder / "bin" / "python")
    yield from filter(None, [shutil.which(f"python3.{minor}")])


def _has_version(python: str, minor: int) -> bool:
    code = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, {minor}))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def environment_python(base: str, name: str) -> str:
    """The interpreter of an environment that has everything of `requirements/NAME.lock`.

    Raises:
        InstallError: pip cannot install it.
    """
    lock = REQUIREMENTS / f"{name}.lock"
    version = subprocess.run([base, "-VV"], check=True, capture_output=True).stdout
    key = hashlib.sha256(lock.read_bytes() + version).hexdigest()[:12]
    folder = cache_dir() / "test-clients" / f"{name}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_suffix(".lock")):
        if not (folder / ".complete").is_file():
            _make(base, folder, lock)
    return str(folder / "bin" / "python")


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(base: str, folder: Path, lock: Path) -> None:
    subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
    # The lock has all that is needed, and older versions of pip miss its pins where extras are required.
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    options += ["--requirement", str(lock)]
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", *options]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        shutil.rmtree(folder)
        raise InstallError(lock, made.stderr)
    (folder / ".complete").touch()
