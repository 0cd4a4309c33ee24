"""What commands print: tables and JSON, with emphasis on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_GAP = "  "


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return _styled(text, _BOLD)


def dim(text: str) -> str:
    """Text that stands back on a terminal."""
    return _styled(text, _DIM)


def _styled(text: str, style: str) -> str:
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain or not text else f"{style}{text}{_PLAIN}"


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Prints rows below their titles; the columns in ``right`` end at the same place."""
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]

    def line(row: Sequence[str]) -> str:
        cells = [
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return _GAP.join(cells).rstrip()

    sys.stdout.write(bold(line(titles)) + "\n")
    for row in rows:
        sys.stdout.write(line(row) + "\n")


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints names and values, a line each."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        sys.stdout.write(f"{dim(name.ljust(width))}{_GAP}{value}\n")
