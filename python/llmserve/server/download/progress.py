"""Progress: one line that is redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TextIO

_WIDTH = 30
_PLAIN_STEP = 10
_OVER = 101
"""Stands for the percentage of a line that has ended: no other is greater."""


class ProgressLine:
    """Shows how much of one piece of work is done. As a context manager it ends its line."""

    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._percent = -1

    def show(self, share: float) -> None:
        """Draws the share, 0 to 1; a share that draws nothing new costs nothing."""
        percent = min(100, max(0, int(share * 100)))
        if not self._is_terminal:
            percent -= percent % _PLAIN_STEP
        if percent <= self._percent or (percent == 0 and not self._is_terminal):
            return
        self._percent = percent
        if self._is_terminal:
            filled = _WIDTH * percent // 100
            bar = "█" * filled + "░" * (_WIDTH - filled)
            self._stream.write(f"\r{self._label} {bar} {percent:3d} %")
        else:
            self._stream.write(f"{self._label}: {percent} %\n")
        self._stream.flush()

    def close(self) -> None:
        """Ends the line, if one is being drawn."""
        self._end("\n")

    def erase(self) -> None:
        """Removes the line that is being drawn: the work has failed."""
        self._end("\r\x1b[K")

    def _end(self, text: str) -> None:
        if self._is_terminal and 0 <= self._percent < _OVER:
            self._stream.write(text)
            self._stream.flush()
            self._percent = _OVER

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
