"""Reads what a user types: lines with history, and texts of several lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

_QUOTES = '"""'
_MAX_HISTORY = 1000


@contextlib.contextmanager
def line_history(path: Path) -> Iterator[None]:
    """Keeps the typed lines in a file, from chat to chat, where a terminal is typed at."""
    if not sys.stdin.isatty():
        yield
        return
    try:
        import readline
    except ImportError:  # a Python without it
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_MAX_HISTORY)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)


def read_text(prompt: str, further: str) -> str | None:
    """The next text; ``None`` at the end of the input.

    A line that ends with a backslash goes on; a text in triple quotation marks ends with them.
    """
    try:
        line = _line(prompt)
        if line.lstrip().startswith(_QUOTES):
            return _quoted(line.lstrip().removeprefix(_QUOTES), further)
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1].removesuffix("\\")
            lines.append(_line(further))
    except EOFError:
        return None
    return "\n".join(lines).strip()


def _quoted(first: str, further: str) -> str:
    lines = [first]
    while not lines[-1].rstrip().endswith(_QUOTES):
        lines.append(_line(further))
    lines[-1] = lines[-1].rstrip().removesuffix(_QUOTES)
    return "\n".join(lines).strip()


def _line(prompt: str) -> str:
    # Where no terminal is typed at, prompts would only be in the way of the output.
    return input(prompt if sys.stdin.isatty() else "")
