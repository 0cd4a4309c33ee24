"""Starts the server again when its process has died."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_PR_SET_PDEATHSIG = 1
"""Of `prctl` (Linux): the signal that a process gets when its parent dies."""
_FIRST_DELAY_S = 1.0
_MAX_DELAY_S = 60.0
_STEADY_S = 600.0
"""A process that has lived for this long did not die of its start: after it the delays begin anew."""


class Supervisor:
    """Serves in a child process, and in another when that one is killed.

    A child that exits has chosen to: its status is the supervisor's. What ends a process from a terminal or a
    service manager is passed on, and on Linux the child ends with the supervisor. What the supervisor has
    opened, such as listening sockets, stays open between two children.
    It has no threads, so it may fork.
    """

    def __init__(self, serve: Callable[[], int]) -> None:
        """``serve`` returns the exit status."""
        self._serve = serve
        self._child = 0
        self._is_ending = False

    def run(self) -> int:
        """The exit status, in the supervisor and in each child."""
        delay_s = _FIRST_DELAY_S
        while not self._is_ending:
            began = time.monotonic()
            with _no_signals():
                supervisor = os.getpid()
                self._child = os.fork()
                for number in _heeded():
                    signal.signal(number, self._pass_on if self._child else _default(number))
            if self._child == 0:
                # Ctrl-C in a terminal is for the supervisor, which passes it on.
                os.setpgid(0, 0)
                _end_with(supervisor)
                return self._serve()
            status = self._wait()
            if status >= 0 or self._is_ending:
                return status if status >= 0 else 128 - status
            if time.monotonic() - began > _STEADY_S:
                delay_s = _FIRST_DELAY_S
            name = signal.Signals(-status).name
            sys.stderr.write(f"llmserve: the server was killed by {name}; it starts again in {delay_s:g} s\n")
            self._sleep(delay_s)
            delay_s = min(2 * delay_s, _MAX_DELAY_S)
        return 0

    def _wait(self) -> int:
        """The child's exit status, or minus the number of the signal that killed it."""
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return os.waitstatus_to_exitcode(status)

    def _sleep(self, duration_s: float) -> None:
        end = time.monotonic() + duration_s
        while not self._is_ending and time.monotonic() < end:
            time.sleep(0.05)  # goes on after a signal

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._is_ending = True
        if self._child:
            os.kill(self._child, number)


def _heeded() -> list[signal.Signals]:
    """The signals that end a process; under `nohup`, SIGHUP does not."""
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _end_with(supervisor: int) -> None:
    """Has this process be told to end when the supervisor is killed."""
    if sys.platform != "linux":
        return
    import ctypes  # which servers without a supervisor need not wait for

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # it died before
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _no_signals() -> Iterator[None]:
    """Has signals wait until they are known to be handled, in the child too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _default(number: int) -> Callable[[int, FrameType | None], object] | signal.Handlers:
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
