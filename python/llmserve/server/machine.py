"""The machine's memory, or that of the container."""

from __future__ import annotations

import os
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The limit of the cgroup as a container sees it, in both versions of cgroups."""


def memory_bytes() -> int | None:
    """The memory that this process may use at most, or ``None`` if the system does not tell."""
    found = [_limit(Path(path)) for path in _LIMITS]
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None
    return min(number for number in found if number is not None)


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
