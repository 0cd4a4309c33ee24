"""Lines of the engine and of llama.cpp in Python's `logging`, under the name `llmserve.engine`."""

from __future__ import annotations

import atexit
import logging
import os
import threading

from llmserve import _core

__all__ = ["start"]

_logger = logging.getLogger("llmserve.engine")
_thread: threading.Thread | None = None
_lock = threading.Lock()


def start() -> None:
    """Forward lines from now on, from the level that the logger has at this moment."""
    global _thread
    _core.set_log_level(_logger.getEffectiveLevel())
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_forward_forever, name="llmserve log lines", daemon=True)
            _thread.start()


def _forward_forever() -> None:
    while True:
        _forward(block=True)


def _forward(*, block: bool) -> None:
    for level, line in _core.take_log_records(block):
        # What llama.cpp said is in the last line, below what it means.
        meaning, _, detail = line.rpartition("\n")
        _logger.log(level, "%s", "; ".join(filter(None, (meaning, detail))))


def _end() -> None:
    _core.begin_exit()
    _forward(block=False)


def _forget_thread() -> None:
    """In a forked child, which has no thread but its first."""
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_thread)
