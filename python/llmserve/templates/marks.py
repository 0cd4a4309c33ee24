"""Marks in text of users, so that it never becomes control tokens.

A mark, U+FDD0, goes after the first character of each control token's text. The engine reads control tokens
where no mark breaks them and takes the marks out. A U+FDD0 of the user's own is doubled. Templates may trim,
split and join marked text like any other; the mark is not white space.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["MARK", "Marker", "unescape_marks", "unmark"]

MARK = "\ufdd0"

_RUN = re.compile(f"{MARK}+")
# Characters of a control token that a pattern looks for; the rest is compared afterwards.
_SCANNED = 8
# In JSON, or in Python's `repr`: a backslash of the text, or marks.
_ESCAPED = re.compile(r"\\\\|(?:\\ufdd0)+")


class Marker:
    """Marks the text of a vocabulary's control tokens."""

    __slots__ = ("_beginning", "_begun", "_lengths", "_longest", "_tokens")

    def __init__(self, control_tokens: Iterable[str]) -> None:
        # Small letters: a template may change capitals, and then text of a user must not match either.
        self._tokens = {token.lower() for token in control_tokens if token and MARK not in token}
        self._lengths = sorted({len(token) for token in self._tokens})
        self._longest = max(self._lengths, default=0)
        self._begun = {token[:length] for token in self._tokens for length in range(1, len(token))}
        self._beginning = _lookahead({token[:_SCANNED] for token in self._tokens})

    def text(self, text: str) -> str:
        """Marks a text.

        A control token that begins at the end of the text is marked too: the next text could complete it.
        """
        places = {start + 1 for start in (*self._found(text), *self._begun_at_end(text))}
        pieces = []
        start = 0
        for place in sorted(places):
            pieces.append(text[start:place].replace(MARK, MARK * 2))
            start = place
        pieces.append(text[start:].replace(MARK, MARK * 2))
        return MARK.join(pieces)

    def value(self, value: Any) -> Any:
        """Marks all strings of a JSON-like value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _found(self, text: str) -> Iterator[int]:
        """Where a control token's text begins."""
        if self._beginning is None:
            return
        for match in self._beginning.finditer(text):
            start = match.start()
            if any(text[start : start + length].lower() in self._tokens for length in self._lengths):
                yield start

    def _begun_at_end(self, text: str) -> Iterator[int]:
        for start in range(max(0, len(text) - self._longest), len(text)):
            if text[start:].lower() in self._begun:
                yield start


def unmark(text: str) -> str:
    """A marked text without marks."""
    return _RUN.sub(lambda run: MARK * (len(run[0]) // 2), text)


def unescape_marks(escaped: str) -> str:
    """Text in which marks are escaped (`\\ufdd0`), as JSON and Python do it, with the marks restored.

    The user's own U+FDD0 stays escaped.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[0].startswith("\\\\"):
            return match[0]
        count = len(match[0]) // len("\\ufdd0")
        return MARK * (count % 2) + "\\ufdd0" * (count // 2)

    return _ESCAPED.sub(replacement, escaped)


def _lookahead(beginnings: Collection[str]) -> re.Pattern[str] | None:
    """Matches, without consuming, wherever one of the texts stands."""
    if not beginnings:
        return None
    return re.compile(f"(?={_branches(beginnings)})", re.IGNORECASE)


def _branches(words: Iterable[str]) -> str:
    """A pattern for any of the words that looks at each character once: vocabularies have thousands."""
    rests: dict[str, set[str]] = {}
    for word in words:
        if not word:
            return ""
        rests.setdefault(word[0], set()).add(word[1:])
    return "(?:" + "|".join(re.escape(first) + _branches(rest) for first, rest in rests.items()) + ")"
