"""`scripts/ensure-system`: system packages are installed where we may, and named where not."""

from __future__ import annotations

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
    for name in ("bash", "dirname", "env", "touch", "chmod"):
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


@pytest.mark.parametrize("user", [0, 1000])
def test_a_browser_for_tests_is_installed_where_we_may(programs: Path, user: int) -> None:
    log = programs.parent / "apt.log"
    _put(programs, "c++", "exit 0")
    _put(programs, "apt-get", f'echo "$*" >> "{log}"')
    _put(programs, "id", f"echo {user}")
    result = _ensure(programs, "tests")
    assert (result.returncode, log.is_file()) == (0, user == 0)
    assert not log.is_file() or "chromium" in log.read_text()


def test_tests_go_on_without_a_browser(programs: Path) -> None:
    _put(programs, "c++", "exit 0")
    _put(programs, "apt-get", "exit 100")
    _put(programs, "id", "echo 0")
    result = _ensure(programs, "tests")
    assert result.returncode == 0
    assert result.stderr.endswith("chromium could not be installed; the pages' tests are skipped\n")


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
