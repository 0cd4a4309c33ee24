"""Which process serves on a port of this machine: a file that it keeps locked for as long as it lives.

A lock cannot outlive its process, so the process id in the file is never that of another program.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def run_file(cache_dir: Path, port: int) -> Iterator[None]:
    """Says that this process serves on a port. Where the cache cannot be written, nothing is said."""
    path = _path(cache_dir, port)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened without emptying it: the file of another server, if there is one, stays as it is.
        file = path.open("a+")
    except OSError:
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield
            return
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def server_process(cache_dir: Path, port: int) -> int | None:
    """The id of the process that serves on a port; ``None`` if none has said so."""
    try:
        with _path(cache_dir, port).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else None
    except OSError:
        pass
    return None


def _path(cache_dir: Path, port: int) -> Path:
    return cache_dir / "run" / f"{port}.pid"
