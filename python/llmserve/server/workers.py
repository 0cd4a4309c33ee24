"""Refuses to be one of several worker processes.

Each worker would have its own models and sessions: twice the memory, and sessions that exist or not,
depending on which worker answers.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from llmserve.server.start_error import StartError

logger = logging.getLogger(__name__)

_REASON = (
    "llmserve runs in one process: each worker would load its own models and keep its own sessions.\n"
    "hint: use one worker; to scale, run several servers on ports of their own behind a proxy"
)


class SeveralWorkersError(StartError):
    """The server was started with more than one worker."""

    def __init__(self) -> None:
        super().__init__(_REASON)


class OneWorkerLock:
    """Holds, for the life of the process, the right to serve its listening sockets.

    uvicorn tells its number of workers. Other servers that fork workers (gunicorn, granian) do not, but their
    workers share an address: the first one locks a file named after it, and every other finds it locked.
    """

    # By file name, for the whole process: several applications in one process are not workers.
    _held: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        self._mine: list[str] = []

    def acquire(self) -> None:
        """Acquires the right.

        Raises:
            SeveralWorkersError: Another worker has it, or uvicorn was told to run several.
        """
        if _num_uvicorn_workers() > 1:
            raise SeveralWorkersError
        for address in _bound_addresses():
            self._lock(address)

    def release(self) -> None:
        """Gives the right back."""
        while self._mine:
            os.close(self._held.pop(self._mine.pop()))

    def _lock(self, address: str) -> None:
        name = hashlib.sha256(f"{_network_namespace()} {address}".encode()).hexdigest()[:16]
        if name in self._held:
            return
        try:
            file = _open_lock_file(name)
        except OSError as error:
            logger.warning("cannot check for other workers: no lock file (%s)", error.strerror)
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise SeveralWorkersError from None
        self._held[name] = file
        self._mine.append(name)


def _open_lock_file(name: str) -> int:
    folder = Path(tempfile.gettempdir()) / f"llmserve-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "the folder for locks belongs to another user")
    return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def uvicorn_server() -> Any | None:
    """The uvicorn server that runs this process, found by its signal handler; ``None`` under others."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return server if hasattr(server, "should_exit") and hasattr(server, "config") else None


def _num_uvicorn_workers() -> int:
    server = uvicorn_server()
    workers = getattr(server.config, "workers", 1) if server is not None else 1
    return workers if isinstance(workers, int) else 1


def _bound_addresses() -> Iterator[str]:
    """The addresses of sockets that were bound before the application started, so by a parent process.

    A server that binds for itself does so later.
    """
    folder = next((path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.is_dir()), None)
    for entry in [] if folder is None else list(folder.iterdir()):
        try:
            descriptor = int(entry.name)
            is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
            if is_socket and (address := _listening_address(descriptor)):
                yield address
        except (OSError, ValueError):
            continue


def _listening_address(descriptor: int) -> str | None:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        if sock.type != socket.SOCK_STREAM or sock.family not in (
            socket.AF_INET,
            socket.AF_INET6,
            socket.AF_UNIX,
        ):
            return None
        address = sock.getsockname()
        try:
            sock.getpeername()
        except OSError:
            is_bound = bool(address) and (sock.family == socket.AF_UNIX or address[1] != 0)
            return f"{sock.family} {address}" if is_bound else None
        return None  # a connection


def _network_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/net").readlink())
    except OSError:
        return "-"
