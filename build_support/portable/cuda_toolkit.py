"""CUDA's compiler, headers and libraries from PyPI, laid out as a toolkit that CMake finds."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from native import cache_dir
from toolchain import ROOT, BuildSetupError

LOCK = ROOT / "requirements" / "cuda.lock"


def cuda_toolkit() -> Path:
    """The folder of the toolkit of `requirements/cuda.lock`; installed into the cache first (1.2 GB).

    Raises:
        BuildSetupError: pip cannot install it.
    """
    kept = cache_dir() / "build-tools" / f"cuda-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if not kept.is_dir():
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        _install(partial)
        complete(_toolkit(partial))
        partial.rename(kept)
    return _toolkit(kept)


def _install(folder: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), "-r", str(LOCK)]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise BuildSetupError(f"CUDA's compiler cannot be installed: {done.stderr.strip()[-500:]}")


def _toolkit(packages: Path) -> Path:
    [toolkit] = (packages / "nvidia").glob("cu[0-9]*")
    return toolkit


def complete(toolkit: Path) -> None:
    """Give the libraries of the packages the names that a linker looks for."""
    for library in (toolkit / "lib").glob("*.so.*"):
        plain = library.with_name(library.name.partition(".so")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
