"""Machines that have nothing but Python: environments that the wheel is installed in, and other CPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from environments import find_python

GENERATE = Path(__file__).with_name("generate.py")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that has the wheel."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def command(self) -> str:
        return str(self.folder / "bin" / "llmserve")


def install(wheel: Path, tools: Path, maker: str, minor: int, folder: Path) -> Installed:
    """The wheel in an environment without pip, made by `venv` or `uv`."""
    base = find_python([minor])
    if base is None:
        pytest.skip(f"there is no Python 3.{minor}")
    env = {**_without_compilers(), "UV_PYTHON_DOWNLOADS": "never"}
    if maker == "uv":
        _run([str(tools / "uv"), "venv", "--quiet", "--python", base, str(folder / "env")], env)
    else:
        _run([base, "-m", "venv", "--without-pip", str(folder / "env")], env)
    made = Installed(folder / "env")
    _run([str(tools / "uv"), "pip", "install", "--quiet", "--python", made.python, str(wheel)], env)
    return made


def bare_environment(cache: Path) -> dict[str, str]:
    """The variables of a program on a machine without compilers and without the user's files."""
    return {"PATH": "/nonexistent", "HOME": str(cache), "LLMSERVE_CACHE_DIR": str(cache), **_network()}


def generated(
    python: str, model: Path, cpu: str | None = None, packages: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs `generate.py` on this CPU or on an emulated one; `packages` is a folder to import from."""
    command = [python, str(GENERATE), str(model)]
    if cpu is not None:
        qemu = shutil.which("qemu-x86_64")
        if qemu is None:
            pytest.skip("qemu-x86_64 is not installed (Debian's package `qemu-user`)")
        command = [qemu, "-cpu", cpu, *command]
    env = {**os.environ, "PYTHONPATH": packages}
    return subprocess.run(command, env=env, capture_output=True, text=True)


def _without_compilers() -> dict[str, str]:
    return {**os.environ, "PATH": "/nonexistent"}


def _network() -> dict[str, str]:
    """How the package index is reached from here."""
    names = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
    found = {name: os.environ.get(name) or os.environ.get(name.lower()) for name in names}
    return {name: value for name, value in found.items() if value}


def _run(command: list[str], env: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
