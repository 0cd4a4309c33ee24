"""The process as Prometheus' own clients show it."""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from llmserve.server.metrics.exposition import counter, gauge, metric_lines

_CPU = counter("process_cpu_seconds", "User and system CPU seconds of the process.")
_START = gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")
_RESIDENT = gauge("process_resident_memory_bytes", "Resident memory.")
_VIRTUAL = gauge("process_virtual_memory_bytes", "Virtual memory.")
_OPEN_FILES = gauge("process_open_fds", "Open file descriptors.")
_MAX_FILES = gauge("process_max_fds", "Maximum number of open file descriptors.")


def process_lines() -> Iterator[str]:
    """CPU time; on Linux also memory, descriptors and the time of the start."""
    yield from metric_lines(_CPU, [({}, time.process_time())])
    if sys.platform == "linux":
        yield from _linux_lines()


def _linux_lines() -> Iterator[str]:
    import resource  # not on Windows

    virtual, resident = Path("/proc/self/statm").read_text().split()[:2]
    page = os.sysconf("SC_PAGE_SIZE")
    yield from metric_lines(_START, [({}, started_at())])
    yield from metric_lines(_RESIDENT, [({}, int(resident) * page)])
    yield from metric_lines(_VIRTUAL, [({}, int(virtual) * page)])
    # One is that of the folder itself.
    yield from metric_lines(_OPEN_FILES, [({}, sum(1 for _ in os.scandir("/proc/self/fd")) - 1)])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield from metric_lines(_MAX_FILES, [({}, math.inf if limit == resource.RLIM_INFINITY else limit)])


_IMPORTED_AT = time.time()


@functools.cache
def started_at() -> float:
    """When the process started, in seconds since 1970; but for Linux, when this module was imported."""
    if sys.platform != "linux":
        return _IMPORTED_AT
    # The command's name, in parentheses, may contain anything; `starttime` is field 22 (proc(5)).
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot, 2)
