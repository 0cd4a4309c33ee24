"""Starts `llmserve serve` and `uvicorn` on free loopback ports."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from serving.client import wait_until
from serving.server import SMALL, Server

TESTS = Path(__file__).resolve().parent.parent
END_S = 60


class ServerProcess(Server):
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log_file: Path) -> None:
        super().__init__(port, log_file)
        self.process = process

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit status; negative: the signal that ended it."""
        return self.process.wait(END_S)

    def wait_until_listening(self) -> None:
        wait_until(lambda: self._is_listening())

    def wait_until_ready(self) -> None:
        self.wait_until_listening()
        wait_until(lambda: "ready" in self.states() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log

    def _is_listening(self) -> bool:
        assert self.process.poll() is None, self.log
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


def _worker_ports() -> Iterator[int]:
    """Ports that only this process of the test run uses: below those that systems give to clients."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 10_000 + worker % 20 * 1000
    # Runs of other checkouts begin elsewhere.
    begin = os.getpid() % 1000
    return itertools.cycle([*range(first + begin, first + 1000), *range(first, first + begin)])


_ports = _worker_ports()


def free_port() -> int:
    """A port that nobody listens on now, and that no other test is given."""
    for port in itertools.islice(_ports, 1000):
        with socket.socket() as sock:
            # As servers do: the connections of an earlier test may still be closing.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                return port
    raise OSError("all ports of the test run are taken")


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings, plus `extra`; tests can be imported."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LLMSERVE_")}
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", **extra}


@contextmanager
def _running(
    command: Sequence[str], env: Mapping[str, str], port: int, folder: Path, pass_fds: Sequence[int] = ()
) -> Iterator[ServerProcess]:
    log_file = folder / f"server-{port}.log"
    if not any("grpc" in word.lower() for word in (*command, *env)):
        # Its import would take longer than many a test.
        env = {**env, "LLMSERVE_GRPC": "false"}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, env=environment(env), stdout=log, stderr=log, cwd=folder, pass_fds=pass_fds
        )
    try:
        yield ServerProcess(process, port, log_file)
    finally:
        process.kill()
        process.wait()


@contextmanager
def serve(
    folder: Path, model: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`llmserve serve MODEL --port PORT arguments`, in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "llmserve", "serve", str(model), "--port", str(port), *arguments]
    with _running(command, {**SMALL, **(env or {})}, port, folder) as server:
        yield server


def serve_catalogue(folder: Path, catalogue: Path) -> AbstractContextManager[ServerProcess]:
    """`llmserve serve --catalogue FILE`, without a model to start with."""
    return serve_without_model(folder, "--catalogue", str(catalogue))


@contextmanager
def serve_without_model(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`llmserve serve --port PORT arguments`, in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "llmserve", "serve", "--port", str(port), *arguments]
    with _running(command, {**SMALL, **(env or {})}, port, folder) as server:
        yield server


@contextmanager
def serve_with_uvicorn(
    folder: Path, *arguments: str, app: str = "llmserve.app:app", env: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`uvicorn APP --port PORT arguments`, in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), *arguments]
    with _running(command, {**SMALL, **(env or {})}, port, folder) as server:
        yield server


@contextmanager
def serve_with_small_buffers(
    folder: Path, *arguments: str, env: Mapping[str, str]
) -> Iterator[ServerProcess]:
    """uvicorn whose connections hold a few KiB instead of some MiB: a client that does not read is felt "
    "soon."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        descriptor, port = listener.fileno(), listener.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "llmserve.app:app", "--fd", str(descriptor), *arguments]
        with _running(command, {**SMALL, **env}, port, folder, [descriptor]) as server:
            yield server
