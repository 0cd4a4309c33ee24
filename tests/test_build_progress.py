"""What is shown while llama.cpp is compiled."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

import native_build
from native_build import Terminal, cargo_command
from progress import NativeBuild, ProgressReporter, elapsed, running_build

_NINJA = """\
build CMakeFiles/ggml.dir/a.c.o: C_COMPILER__ggml_Release /src/a.c
  FLAGS = -O3
build CMakeFiles/ggml.dir/b.cpp.o: CXX_COMPILER__ggml_Release /src/b.cpp
build CMakeFiles/ggml.dir/c.cpp.o: CXX_COMPILER__ggml_Release /src/c.cpp
build libggml.a: CXX_STATIC_LIBRARY_LINKER__ggml_Release CMakeFiles/ggml.dir/a.c.o
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The directory of llama.cpp's build script in a target directory."""
    folder = tmp_path / "release" / "build" / "llama-cpp-sys-2-0123456789abcdef"
    (folder / "out" / "build" / "CMakeFiles" / "ggml.dir").mkdir(parents=True)
    return folder


def _compile(script: Path, *names: str) -> None:
    build = script / "out" / "build"
    (build / "build.ninja").write_text(_NINJA)
    for name in names:
        (build / "CMakeFiles" / "ggml.dir" / name).touch()


def test_nothing_is_running_in_an_empty_directory(tmp_path: Path) -> None:
    assert running_build(tmp_path) is None


def test_a_build_begins_with_cmake(tmp_path: Path, script: Path) -> None:
    assert running_build(tmp_path) == NativeBuild(done=0, total=0)
    assert NativeBuild(0, 0).describe() == "llama.cpp: preparing"


def test_objects_are_counted(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o", "b.cpp.o")
    assert running_build(tmp_path) == NativeBuild(done=2, total=3)
    assert NativeBuild(2, 3).describe() == "llama.cpp: 2 of 3 files"


def test_a_build_without_ninja_has_no_total(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o")
    (script / "out" / "build" / "build.ninja").unlink()
    build = running_build(tmp_path)
    assert build == NativeBuild(done=1, total=0)
    assert build.describe() == "llama.cpp: 1 files"


def test_a_finished_build_is_not_running(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o", "b.cpp.o")
    (script / "root-output").touch()
    assert running_build(tmp_path) is None


def test_with_all_objects_rust_is_what_is_compiled(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o", "b.cpp.o", "c.cpp.o")
    assert running_build(tmp_path) is None
    assert ProgressReporter(tmp_path).line() == "llmserve: compiling Rust, 0 s"


def test_a_build_that_is_done_again_is_running(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o")
    end, log = script / "root-output", script / "out" / "build" / ".ninja_log"
    end.touch()
    log.touch()
    os.utime(end, (1000.0, 1000.0))
    os.utime(log, (2000.0, 2000.0))
    assert running_build(tmp_path) == NativeBuild(done=1, total=3)


def test_the_reporter_writes_until_its_block_ends(tmp_path: Path, script: Path) -> None:
    _compile(script, "a.c.o")
    lines: list[str] = []
    written = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        written.set()

    with ProgressReporter(tmp_path, interval_s=0.001, write=write):
        assert written.wait(30)
    count = len(lines)
    assert lines[0].startswith("llmserve: llama.cpp: 1 of 3 files, ")
    assert len(lines) == count


def test_the_reporter_names_other_work_too(tmp_path: Path) -> None:
    assert ProgressReporter(tmp_path).line() == "llmserve: compiling Rust, 0 s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0 s"), (59.9, "59 s"), (60.0, "1 min 00 s"), (754.0, "12 min 34 s")]
)
def test_elapsed(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_status_is_the_last_line() -> None:
    stream = _Tty()
    terminal = Terminal(stream)
    terminal.status("1 of 3")
    terminal.line("Compiling x")
    terminal.status("2 of 3")
    terminal.clear_status()
    erase = "\r\x1b[K"
    assert stream.getvalue() == f"{erase}1 of 3{erase}Compiling x\n{erase}2 of 3{erase}"


def test_in_a_log_each_status_is_a_line() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.status("1 of 3")
    terminal.line("Compiling x")
    terminal.clear_status()
    assert stream.getvalue() == "1 of 3\nCompiling x\n"


def test_cargo_is_called_as_maturin_calls_it() -> None:
    plain = ["cargo", "build", "--release", "--locked", "--package", "llmserve-python", "--lib"]
    assert cargo_command(()) == plain
    assert cargo_command(("cuda", "vulkan")) == [*plain, "--features", "cuda,vulkan"]


@pytest.mark.parametrize("verbose", ["", "0", "1"])
def test_what_cargo_says_of_each_crate_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verbose: str
) -> None:
    said = [
        "    Blocking waiting for file lock on build directory",
        "   \x1b[1mCompiling\x1b[0m a v1.0.0",
        "  Downloaded b v1.0.0",
        "error: Compiling is not possible",
    ]
    code = "import sys; sys.stderr.write(sys.argv[1]); sys.exit(101)"
    text = "".join(f"{line}\n" for line in said)
    monkeypatch.setattr(native_build, "ROOT", tmp_path)
    monkeypatch.setattr(native_build, "cargo_command", lambda features: [sys.executable, "-c", code, text])
    monkeypatch.setenv("VERBOSE", verbose)
    assert native_build.build((), {**os.environ, "CARGO_TARGET_DIR": str(tmp_path)}) == 101
    assert (tmp_path / native_build.LOG).read_text() == text
    *shown, failure, hint = capsys.readouterr().err.splitlines()
    assert shown == (said if verbose == "1" else [said[0], said[3]])
    assert (failure, hint) == ("llmserve: the build failed", "hint: all output is in target/logs/cargo.log")
