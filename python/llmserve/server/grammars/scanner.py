"""Reads the small parts of GBNF: names, numbers, strings, sets of characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from llmserve.server.grammars.nodes import MAX_CODE_POINT, Chars, Node, char_set, characters

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_DEFINES = "::="

_ESCAPES: Mapping[str, str] = MappingProxyType(
    {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b", "0": "\0"}
)
_HEX_DIGITS: Mapping[str, int] = MappingProxyType({"x": 2, "u": 4, "U": 8})


class GrammarSyntaxError(Exception):
    """A grammar that cannot be read; the message has the line and column (from 1) if they are known."""

    def __init__(self, reason: str, place: tuple[int, int] | None = None) -> None:
        super().__init__(reason if place is None else f"line {place[0]}, column {place[1]}: {reason}")
        self.reason = reason
        self.place = place


class Scanner:
    """A position in a text. Methods whose names begin with `take` move it behind what they return."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0
        self.skip_space()

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self._text)

    @property
    def next(self) -> str:
        """The next character; empty at the end."""
        return self._text[self.position : self.position + 1]

    def skip_space(self) -> None:
        """Moves behind white space and comments."""
        match = _SPACE.match(self._text, self.position)
        self.position = self.position if match is None else match.end()

    def take(self, token: str) -> bool:
        """Whether the token is next; if so it is taken, with the space behind it."""
        if not self._text.startswith(token, self.position):
            return False
        self.position += len(token)
        self.skip_space()
        return True

    def take_name(self) -> str:
        """The name of a rule, or the empty text if there is none."""
        return self._take(_NAME)

    def take_number(self) -> int | None:
        """A number, if there is one."""
        digits = self._take(_NUMBER)
        return int(digits) if digits else None

    def is_at_rule(self) -> bool:
        """Whether a name and `::=` come next."""
        begun = self.position
        found = bool(self.take_name()) and self._text.startswith(_DEFINES, self.position)
        self.position = begun
        return found

    def take_string(self) -> Node:
        """A text in quotes, which come next."""
        begun = self.position
        self.position += 1
        found: list[str] = []
        while self.next != '"':
            if self.next in ("", "\n"):
                raise self.error("the string is not closed", begun)
            found.append(chr(self._take_character()))
        self.take('"')
        return characters(self._joined("".join(found), begun))

    def take_set(self) -> Chars:
        """A set of characters in brackets, which come next."""
        begun = self.position
        self.position += 1
        is_negated = self.next == "^"
        self.position += is_negated
        ranges: list[tuple[int, int]] = []
        while self.next != "]":
            at = self.position
            low = high = self._take_of_set(begun)
            if self.next == "-" and self._text[self.position + 1 : self.position + 2] not in ("]", ""):
                self.position += 1
                high = self._take_of_set(begun)
            if high < low:
                raise self.error("the range's end is before its start", at)
            ranges.append((low, high))
        self.take("]")
        if not ranges and not is_negated:
            raise self.error("the set of characters is empty", begun)
        found = char_set(ranges, is_negated=is_negated)
        if not found.ranges:
            raise self.error("the set of characters is empty", begun)
        return found

    def error(self, reason: str, position: int | None = None) -> GrammarSyntaxError:
        """The error at a position, or here."""
        at = min(self.position if position is None else position, len(self._text))
        line_start = self._text.rfind("\n", 0, at) + 1
        return GrammarSyntaxError(reason, (self._text.count("\n", 0, at) + 1, at - line_start + 1))

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        self.skip_space()
        return match.group()

    def _take_of_set(self, begun: int) -> int:
        if self.next in ("", "\n"):
            raise self.error("the set of characters is not closed", begun)
        at = self.position
        code = self._take_character()
        if 0xD800 <= code <= 0xDFFF:
            raise self.error("half of a surrogate pair is not a character", at)
        return code

    def _take_character(self) -> int:
        at = self.position
        char = self.next
        self.position += 1
        if char != "\\":
            return ord(char)
        kind = self.next
        self.position += 1
        if kind in _HEX_DIGITS:
            return self._take_hex(_HEX_DIGITS[kind], at)
        if kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        if not kind or kind.isalnum() or kind.isspace():
            raise self.error(f"unknown escape {'at the end' if not kind else repr(chr(92) + kind)}", at)
        return ord(kind)

    def _take_hex(self, num_digits: int, begun: int) -> int:
        digits = self._text[self.position : self.position + num_digits]
        if len(digits) < num_digits or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise self.error(f"the escape must have {num_digits} hexadecimal digits", begun)
        self.position += num_digits
        code = int(digits, 16)
        if code > MAX_CODE_POINT:
            raise self.error("the escape is beyond the last code point", begun)
        return code

    def _joined(self, text: str, begun: int) -> str:
        """The text with surrogate pairs, which JSON writers make, as characters."""
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise self.error("half of a surrogate pair is not a character", begun) from None
