"""Setting up: system packages are installed where we may, and named where not; a step is one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain import ROOT


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """All of PATH: what the script itself needs, a Rust toolchain, no C++ compiler, no apt-get."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "env", "touch", "chmod", "mkdir", "tail", "tee"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    _put(folder, "cargo", "exit 0")
    _put(folder, "rustc", "echo 'rustc 99.0.0 (0000000 2099-01-01)'")
    return folder


def _put(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def _ensure(programs: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(programs), "HOME": str(programs.parent), "PYTHON": sys.executable, **variables}
    script = str(ROOT / "scripts" / "ensure-system")
    return subprocess.run([script, *arguments], env=env, capture_output=True, text=True, check=False)


def test_nothing_is_said_where_nothing_is_missing(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    result = _ensure(programs)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_without_apt_the_packages_are_named(programs: Path) -> None:
    result = _ensure(programs)
    assert result.returncode == 1
    assert result.stderr == (
        "llmserve: missing: g++ (Debian's names).\nhint: install them with your package manager.\n"
    )


def test_without_root_the_command_is_named(programs: Path) -> None:
    _put(programs, "apt-get", "exit 99")
    _put(programs, "id", "echo 1000")
    result = _ensure(programs)
    assert result.returncode == 1
    assert result.stderr == "llmserve: missing: g++.\nhint: sudo apt-get install g++\n"


def test_as_root_the_packages_are_installed(programs: Path) -> None:
    log, compiler = programs.parent / "apt.log", programs / "c++"
    _put(
        programs,
        "apt-get",
        f'echo "$*" >> "{log}"\n[ "$1" = update ] && exit 0\ntouch "{compiler}"; chmod 755 "{compiler}"',
    )
    _put(programs, "id", "echo 0")
    result = _ensure(programs)
    assert (result.returncode, result.stderr) == (0, "llmserve: installing g++\n")
    assert log.read_text() == "update -qq\ninstall -y -qq --no-install-recommends g++\n"


def test_a_browser_for_tests_is_installed_once(programs: Path) -> None:
    log, browser = programs.parent / "apt.log", programs / "chromium"
    _put(programs, "c++", "exit 0")
    _put(programs, "apt-get", f'echo "$*" >> "{log}"\ntouch "{browser}"; chmod 755 "{browser}"')
    _put(programs, "id", "echo 0")
    said = [_ensure(programs, *arguments).stderr for arguments in ([], ["tests"], ["tests"])]
    assert said == ["", "llmserve: installing chromium\n", ""]
    assert log.read_text() == "update -qq\ninstall -y -qq --no-install-recommends chromium\n"


def test_without_root_no_browser_is_installed(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    _put(programs, "apt-get", "exit 99")
    _put(programs, "id", "echo 1000")
    result = _ensure(programs, "tests")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_tests_go_on_without_a_browser(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    _put(programs, "apt-get", "exit 100")
    _put(programs, "id", "echo 0")
    result = _ensure(programs, "tests")
    assert result.returncode == 0
    assert result.stderr.endswith("there is no chromium; the tests of the pages are skipped\n")


def test_an_old_python_is_refused(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    old = 'case "$*" in *ensurepip*) exit 0;; --version) echo "Python 3.9.2";; *) exit 1;; esac'
    _put(programs, "old-python", old)
    result = _ensure(programs, PYTHON="old-python")
    assert result.returncode == 1
    assert result.stderr == (
        "llmserve: Python 3.9.2 is too old: Python 3.11 or newer is needed.\n"
        "hint: make PYTHON=/path/to/a/newer/python3\n"
    )


def test_missing_rust_is_named(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    (programs / "cargo").unlink()
    result = _ensure(programs)
    assert result.returncode == 1
    assert result.stderr.startswith("llmserve: `cargo` was not found: ")


def _quietly(checkout: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs it in a checkout of its own."""
    script = checkout / "scripts" / "quietly"
    if not script.exists():
        script.parent.mkdir()
        shutil.copy(ROOT / "scripts" / "quietly", script)
    env = {**os.environ, "VERBOSE": "", **variables}
    return subprocess.run(
        [script, "step", "doing it", *command], env=env, capture_output=True, text=True, check=False
    )


def test_a_step_is_one_line_and_its_output_a_log(tmp_path: Path) -> None:
    log = tmp_path / "target" / "logs" / "step.log"
    for said in ("first", "second"):
        result = _quietly(tmp_path, "sh", "-c", f"echo {said}; echo more >&2")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "llmserve: doing it\n")
        assert log.read_text() == f"{said}\nmore\n"


def test_the_end_of_a_failed_step_is_shown(tmp_path: Path) -> None:
    result = _quietly(tmp_path, "sh", "-c", "seq 100; exit 3")
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        "llmserve: doing it",
        *map(str, range(81, 101)),
        "llmserve: this failed (exit status 3)",
        "hint: all output is in target/logs/step.log",
    ]


@pytest.mark.parametrize("status", [0, 3])
def test_a_verbose_step_shows_all(tmp_path: Path, status: int) -> None:
    result = _quietly(tmp_path, "sh", "-c", f"seq 100; exit {status}", VERBOSE="1")
    assert result.returncode == status
    assert result.stderr.splitlines() == ["llmserve: doing it", *map(str, range(1, 101))]
    assert (tmp_path / "target" / "logs" / "step.log").read_text().splitlines() == list(
        map(str, range(1, 101))
    )
