"""What a user reads when a compiler is missing, does not run, or is too old."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toolchain


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory that is all of PATH; tests put programs in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def _put(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def _check(programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(programs), "HOME": str(programs.parent), **variables}
    command = [sys.executable, str(toolchain.ROOT / "build_support" / "toolchain.py")]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


_RUST_HINT = "hint: install Rust {} or newer with rustup, or with your system's package manager\n"


def _wanted() -> str:
    return ".".join(map(str, toolchain.minimum_rust_version()))


def test_missing_rust(programs: Path) -> None:
    result = _check(programs)
    assert result.returncode == 1
    first, hint = result.stderr.splitlines(keepends=True)
    assert first == "llmserve: `cargo` was not found: llmserve's engine is written in Rust.\n"
    assert hint == _RUST_HINT.format(_wanted())


def test_old_rust(programs: Path) -> None:
    _put(programs, "cargo", "exit 0")
    _put(programs, "rustc", "echo 'rustc 1.70.0 (90c541806 2023-05-31)'")
    result = _check(programs)
    assert result.returncode == 1
    assert result.stderr == (
        f"llmserve: `rustc` is 1.70.0, llmserve needs {_wanted()} or newer.\nhint: `rustup update`\n"
    )


def test_rustup_without_a_toolchain(programs: Path) -> None:
    _put(programs, "cargo", "exit 1")
    _put(programs, "rustc", "echo 'error: no toolchain is configured' >&2; exit 1")
    result = _check(programs)
    assert result.returncode == 1
    assert result.stderr == (
        "llmserve: `rustc --version` failed: error: no toolchain is configured\n"
        "hint: `rustup toolchain install stable`\n"
    )


def test_missing_cxx_compiler(programs: Path) -> None:
    _put(programs, "cargo", "exit 0")
    _put(programs, "rustc", "echo 'rustc 99.0.0 (0000000 2099-01-01)'")
    result = _check(programs)
    assert result.returncode == 1
    first, hint = result.stderr.splitlines()
    assert first == "llmserve: the C++ compiler `c++` was not found: llama.cpp is built from source."
    assert hint.startswith("hint: on Debian or Ubuntu `apt-get install g++`, on macOS `xcode-select")


def test_cxx_chosen_by_the_environment_is_named(programs: Path) -> None:
    _put(programs, "cargo", "exit 0")
    _put(programs, "rustc", "echo 'rustc 99.0.0 (0000000 2099-01-01)'")
    result = _check(programs, CXX="my-compiler -stdlib=x")
    assert "the C++ compiler `my-compiler` was not found" in result.stderr


def test_rust_just_installed_by_rustup_is_found_outside_path(programs: Path) -> None:
    folder = programs.parent / ".cargo" / "bin"
    folder.mkdir(parents=True)
    _put(folder, "cargo", "exit 0")
    _put(folder, "rustc", "echo 'rustc 99.0.0 (0000000 2099-01-01)'")
    _put(programs, "c++", "exit 0")
    result = _check(programs)
    assert (result.returncode, result.stderr) == (0, "")


def test_this_machine_has_everything() -> None:
    toolchain.require_toolchain()
    assert shutil.which("cargo", path=toolchain.search_path()) is not None


def test_run_passes_on_the_command_and_its_exit_status(tmp_path: Path) -> None:
    run = [sys.executable, str(toolchain.ROOT / "build_support" / "run.py")]
    script = "import os, sys; print(os.environ['CARGO_TARGET_DIR']); sys.exit(7)"
    env = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)}
    result = subprocess.run(
        [*run, sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (7, f"{tmp_path}\n")


def test_run_without_a_command_says_how_it_is_used() -> None:
    run = [sys.executable, str(toolchain.ROOT / "build_support" / "run.py")]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (
        1,
        "usage: python build_support/run.py COMMAND [ARGUMENT...]\n",
    )
