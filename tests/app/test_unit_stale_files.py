from __future__ import annotations

import os
import time
from pathlib import Path

from llmserve.server.stale_files import OLD_S, remove_stale_files


def write(path: Path, age_s: float) -> Path:
    path.write_bytes(b"x")
    changed = time.time() - age_s
    os.utime(path, (changed, changed))
    return path


def test_only_old_temporary_files_go(tmp_path: Path) -> None:
    old = write(tmp_path / ".llmserve-12-0.tmp", 2 * OLD_S)
    young = write(tmp_path / ".llmserve-13-0.tmp", 0)
    others = [write(tmp_path / name, 2 * OLD_S) for name in ("a.tmp", ".llmserve-a", "session.bin")]
    link = tmp_path / ".llmserve-link.tmp"
    link.symlink_to(others[0])
    assert remove_stale_files(tmp_path) == 1
    assert not old.exists()
    assert all(path.exists() for path in (young, link, *others))
    assert remove_stale_files(tmp_path) == 0


def test_a_folder_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert remove_stale_files(tmp_path / "none") == 0
