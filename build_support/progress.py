"""Shows that the long native build is getting on: objects compiled of objects to compile."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_OBJECT_EDGE = re.compile(r"^build [^:]*\.(?:o|obj): ", re.MULTILINE)


@dataclass(frozen=True)
class NativeBuild:
    """How far the build of llama.cpp in a cargo target directory is."""

    done: int
    total: int  # 0: not known (yet)

    def describe(self) -> str:
        """Such as "llama.cpp: 17 of 345 files"."""
        if self.total == 0:
            return "llama.cpp: preparing" if self.done == 0 else f"llama.cpp: {self.done} files"
        return f"llama.cpp: {self.done} of {self.total} files"


def running_build(target: Path) -> NativeBuild | None:
    """The build of llama.cpp that goes on in a target directory, if there is one.

    cargo writes `root-output` when a build script has ended (`output` has the time of its start), so
    a script whose build has done something since is at work. Once all objects are there, linking takes a
    second, and what goes on is Rust.
    """
    for script in (target / "release" / "build").glob("llama-cpp-sys-2-*"):
        build = script / "out" / "build"
        if not build.is_dir() or _has_ended(script / "root-output", build):
            continue
        ninja = build / "build.ninja"
        total = len(_OBJECT_EDGE.findall(ninja.read_text(errors="replace"))) if ninja.exists() else 0
        found = NativeBuild(done=sum(1 for _ in build.rglob("*.o")), total=total)
        if found.total == 0 or found.done < found.total:
            return found
    return None


def _has_ended(end: Path, build: Path) -> bool:
    log = build / ".ninja_log"
    last = log if log.exists() else build
    return end.exists() and end.stat().st_mtime_ns >= last.stat().st_mtime_ns


class ProgressReporter:
    """Writes a line about the native build now and then, from a thread, until the block ends.

    Args:
        target: the cargo target directory.
        interval_s: seconds between two lines.
        write: where a line goes (without line end); standard error by default.
    """

    def __init__(
        self, target: Path, *, interval_s: float = 15.0, write: Callable[[str], None] | None = None
    ) -> None:
        self._target = target
        self._interval_s = interval_s
        self._write = write or _write_line
        self._ended = threading.Event()
        self._started_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="build-progress", daemon=True)

    def __enter__(self) -> ProgressReporter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def line(self) -> str:
        """The line to write now."""
        build = running_build(self._target)
        what = build.describe() if build else "compiling Rust"
        return f"llmserve: {what}, {elapsed(time.monotonic() - self._started_s)}"

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._write(self.line())


def elapsed(seconds: float) -> str:
    """A duration in words of a few letters: "45 s", "2 min 05 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _write_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
