"""What `/proc` tells of a server's processes, and busy processes that take its cores away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .harness import BenchError

IDLE_LIMIT_S = 60.0
IDLE_LOOK_S = 0.3
IDLE_SHARE = 0.1

# The process ends by itself, even if this program was killed and cannot end it.
_BUSY = """
import os, time
end, parent = time.monotonic() + {limit_s}, {parent}
print("busy", flush=True)
while time.monotonic() < end and os.getppid() == parent:
    sum(range(10_000))
"""


def cpu_s(pid: int) -> float:
    """CPU seconds of the process `pid` and its children so far, those that have ended among them."""
    ticks = 0
    for process in _family(pid):
        # utime, stime, cutime and cstime; the name before them may hold spaces and brackets.
        ticks += sum(int(value) for value in _read(process, "stat").rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of the process `pid` and its children, in MB (10^6 bytes)."""
    kib = 0
    for process in _family(pid):
        lines = _read(process, "status").splitlines()
        kib += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kib * 1024 / 1e6


def await_idle(pid: int) -> None:
    """Waits until the process `pid` computes next to nothing, as after a request that was dropped.

    Raises:
        BenchError: it still does after a minute.
    """
    limit = time.monotonic() + IDLE_LIMIT_S
    while time.monotonic() < limit:
        before = cpu_s(pid)
        time.sleep(IDLE_LOOK_S)
        if cpu_s(pid) - before <= IDLE_SHARE * IDLE_LOOK_S:
            return
    raise BenchError(f"the server still computes {IDLE_LIMIT_S:g} s after its last request was dropped")


@contextmanager
def busy_processes(count: int, limit_s: float) -> Iterator[None]:
    """`count` processes that compute all the time, each for `limit_s` seconds at most."""
    code = _BUSY.format(limit_s=limit_s, parent=os.getpid())
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            if process.stdout is None or not process.stdout.readline():
                raise BenchError("a busy process did not start")
        yield


def _family(pid: int) -> list[int]:
    """The process `pid`, its children and theirs."""
    if not sys.platform.startswith("linux"):
        raise BenchError("CPU time and memory of a server are read from /proc, which only Linux has")
    family = [pid]
    for member in family:
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            family += [int(child) for child in task.read_text().split()]
    return family


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError as error:
        raise BenchError(f"process {pid} of the server is gone") from error
