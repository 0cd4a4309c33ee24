"""Cuts blanks off the ends of a text that comes in pieces."""

from __future__ import annotations


class Trim:
    """Leaves out the blanks at the beginning, and holds back those at the end until more text comes."""

    __slots__ = ("_at_start", "_begun", "_held", "_holds_end", "_lead")

    def __init__(self, *, start: bool, end: bool, lead: str = "") -> None:
        """``lead`` is left out too, where it comes first."""
        self._at_start = start
        self._lead = lead
        self._begun = ""
        self._holds_end = end
        self._held = ""

    def push(self, text: str) -> str:
        """The text that may be shown now."""
        if self._at_start:
            text = (self._begun + text).lstrip()
            if self._lead and text.startswith(self._lead):
                text, self._lead = text[len(self._lead) :].lstrip(), ""
            elif self._lead.startswith(text):
                self._begun, text = text, ""
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
        """What was held back."""
        held, self._held, self._begun = self._held + self._begun, "", ""
        return held
