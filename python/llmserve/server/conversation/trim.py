"""Cuts blanks off the ends of a text that comes in pieces."""

from __future__ import annotations


class Trim:
    """Leaves out the blanks at the beginning, and holds back those at the end until more text comes."""

    __slots__ = ("_at_start", "_held", "_holds_end")

    def __init__(self, *, start: bool, end: bool) -> None:
        self._at_start = start
        self._holds_end = end
        self._held = ""

    def push(self, text: str) -> str:
        """The text that may be shown now."""
        if self._at_start:
            text = text.lstrip()
            if not text:
                return ""
            self._at_start = False
        if not self._holds_end:
            return text
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        return shown

    def flush(self) -> str:
        """The blanks that were held back."""
        held, self._held = self._held, ""
        return held
