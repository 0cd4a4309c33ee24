from __future__ import annotations

import logging
import sys

import pytest

from llmserve.server.logs import OncePerText, OneLineFormatter


def written(message: str, *, has_error: bool = False) -> str:
    error = None
    if has_error:
        try:
            raise RuntimeError("why")
        except RuntimeError:
            error = sys.exc_info()
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "loading %s failed", (message,), error)
    return OneLineFormatter("%(levelname)s %(message)s").format(record)


@pytest.mark.parametrize("bad", ["\n", "\r", "\x1b", "\x85", "\u2028", "\u202e", "\0", "\ud800"])
def test_a_message_is_one_line_and_controls_no_terminal(bad: str) -> None:
    line = written(f"a{bad}WARNING b")
    assert line.startswith("WARNING loading a\\")
    assert line.isprintable()
    assert line.encode()


def test_other_text_stays() -> None:
    assert written("é 日本 🙂\u00a0x") == "WARNING loading é 日本 🙂\u00a0x failed"


def test_tracebacks_keep_their_lines() -> None:
    lines = written("a\nb", has_error=True).splitlines()
    assert lines[0] == "WARNING loading a\\nb failed"
    assert lines[-1] == "RuntimeError: why"


def test_a_warning_of_one_text_passes_once() -> None:
    once = OncePerText()

    def passes(text: str, *arguments: object, level: int = logging.WARNING) -> bool:
        return once.filter(logging.LogRecord("a", level, "f", 1, text, arguments, None))

    assert [passes("advice") for _ in range(3)] == [True, False, False]
    assert passes("other advice")
    # What tells of one request or of a fault is said each time.
    assert all(passes("request %s", number) for number in (1, 1))
    assert all(passes("broken", level=logging.ERROR) for _ in range(2))
