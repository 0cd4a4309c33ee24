from __future__ import annotations

import signal
import socket
import subprocess
import sys
import textwrap
from types import FrameType

import pytest

from llmserve.server.workers import OneWorkerLock, SeveralWorkersError, uvicorn_server

LOCK_AND_WAIT = """
    import sys
    from llmserve.server.workers import OneWorkerLock, SeveralWorkersError
    lock = OneWorkerLock()
    try:
        lock.acquire()
    except SeveralWorkersError as error:
        print(error)
        sys.exit(3)
    print("acquired", flush=True)
    sys.stdin.read()
"""


def worker(sock: socket.socket) -> subprocess.Popen[str]:
    """A process that was given a listening socket, as servers with several workers do."""
    command = [sys.executable, "-c", textwrap.dedent(LOCK_AND_WAIT)]
    return subprocess.Popen(
        command, pass_fds=[sock.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_only_one_process_may_serve_an_address_and_its_end_frees_it() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        with worker(sock) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "acquired\n"
            with worker(sock) as second:
                output, _ = second.communicate()
            assert second.returncode == 3
            assert "llmserve runs in one process" in output
            assert "behind a proxy" in output
            first.communicate()
        with worker(sock) as third:
            assert third.stdout is not None
            assert third.stdout.readline() == "acquired\n"
            third.communicate()


def test_several_applications_in_one_process_are_no_workers() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        first, second = OneWorkerLock(), OneWorkerLock()
        first.acquire()
        second.acquire()
        second.release()
        first.release()


class Config:
    workers = 2


class Server:
    """What uvicorn's server looks like to a signal handler's owner."""

    should_exit = False
    config = Config()

    def handle_exit(self, number: int, frame: FrameType | None) -> None:
        """Does nothing."""


def test_uvicorns_number_of_workers_is_read_through_its_signal_handler() -> None:
    server = Server()
    previous = signal.signal(signal.SIGTERM, server.handle_exit)
    try:
        assert uvicorn_server() is server
        with pytest.raises(SeveralWorkersError, match="use one worker"):
            OneWorkerLock().acquire()
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert uvicorn_server() is None
