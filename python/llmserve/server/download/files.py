"""A folder that downloads are put into: one program at a time works in it, and only whole files appear."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
"""Bytes that are read at a time."""


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Makes the folder, and keeps other downloads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".pull.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
