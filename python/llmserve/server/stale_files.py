"""Session files that are being written: their names, and the removal of those that a killed server left."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import time
from pathlib import Path

logger = logging.getLogger(__name__)

OLD_S = 3600.0
"""No file takes this long to write; a younger one may be another server's."""

_PATTERN = ".llmserve-*.tmp"


def is_temporary(path: Path) -> bool:
    """Whether a name is like those of files that are being written, which are removed once they are old."""
    return fnmatch.fnmatchcase(path.name, _PATTERN)


def remove_stale_files(folder: Path) -> int:
    """Removes temporary files that nobody has written to for `OLD_S` seconds. Returns how many."""
    num_removed = 0
    with contextlib.suppress(OSError):  # the folder may not exist yet
        for path in folder.glob(_PATTERN):
            with contextlib.suppress(OSError):
                if not path.is_symlink() and time.time() - path.stat().st_mtime > OLD_S:
                    path.unlink()
                    num_removed += 1
    if num_removed:
        logger.info("%d half-written session files removed", num_removed)
    return num_removed
