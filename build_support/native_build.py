"""Compile the extension module and llama.cpp with cargo, and show the progress.

``make build`` runs this before pip installs the package: cargo alone says nothing during the minutes
in which llama.cpp is compiled. On a terminal the last line moves each second; elsewhere a line comes
every 15 seconds. cargo's lines about each crate go to a log only, unless ``VERBOSE=1``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from native import requested_features
from progress import ProgressReporter
from run import build_environment
from toolchain import ROOT, BuildSetupError

LOG = Path("target", "logs", "cargo.log")

_ERASE_LINE = "\r\x1b[K"
_ABOUT_A_CRATE = re.compile(r"(\x1b\[[\d;]*m|\s)*(Compiling|Downloading|Downloaded)\b")


class Terminal:
    """Standard error, shared by cargo's lines and one status line below them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.is_interactive = stream.isatty()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        with self._lock:
            erase = _ERASE_LINE if self.is_interactive else ""
            self._stream.write(f"{erase}{text}\n")
            self._stream.flush()

    def status(self, text: str) -> None:
        """Show a line that the next one replaces; on anything but a terminal it stays."""
        if not self.is_interactive:
            self.line(text)
            return
        with self._lock:
            self._stream.write(f"{_ERASE_LINE}{text[:100]}")
            self._stream.flush()

    def clear_status(self) -> None:
        """Remove the status line."""
        if self.is_interactive:
            with self._lock:
                self._stream.write(_ERASE_LINE)
                self._stream.flush()


def cargo_command(features: tuple[str, ...]) -> list[str]:
    """The same crates, profile and features as maturin's, so that maturin finds them built."""
    command = ["cargo", "build", "--release", "--locked", "--package", "llmserve-python", "--lib"]
    return [*command, "--features", ",".join(features)] if features else command


def build(features: tuple[str, ...], env: dict[str, str]) -> int:
    """Run cargo; returns its exit status."""
    terminal = Terminal(sys.stderr)
    env = {**env, "CARGO_TERM_PROGRESS_WHEN": "never"}
    is_verbose = os.environ.get("VERBOSE", "") not in ("", "0")
    (ROOT / LOG).parent.mkdir(parents=True, exist_ok=True)
    if terminal.is_interactive:
        env.setdefault("CARGO_TERM_COLOR", "always")
    interval_s = 1.0 if terminal.is_interactive else 15.0
    process = subprocess.Popen(
        cargo_command(features), cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    with (
        process,
        (ROOT / LOG).open("w") as log,
        ProgressReporter(Path(env["CARGO_TARGET_DIR"]), interval_s=interval_s, write=terminal.status),
    ):
        for line in process.stderr or ():
            log.write(line)
            if is_verbose or not _ABOUT_A_CRATE.match(line):
                terminal.line(line.rstrip("\n"))
        status = process.wait()
    terminal.clear_status()
    if status != 0:
        terminal.line(f"llmserve: the build failed\nhint: all output is in {LOG}")
    return status


def main() -> None:
    """Build under the native environment, with the features of `LLMSERVE_CARGO_FEATURES`."""
    try:
        status = build(requested_features(), build_environment())
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(status)


if __name__ == "__main__":
    main()
