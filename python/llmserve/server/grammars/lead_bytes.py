"""Sets of bytes with which characters begin, as bits of a number.

A lexer works on bytes: two characters that begin with the same byte are not yet told apart there.
"""

from __future__ import annotations

from llmserve.server.grammars.nodes import Ranges

ALL_BYTES = (1 << 256) - 1


def lead_bytes(ranges: Ranges) -> int:
    """The first bytes (UTF-8) of the characters in the ranges; bit `b` stands for the byte `b`."""
    found = 0
    for low, high in ranges:
        first, last = _lead(low), _lead(high)
        found |= (1 << (last + 1)) - (1 << first)
    return found


def lead_byte(char: str) -> int:
    """The first byte of one character, as a set."""
    return 1 << _lead(ord(char))


def within(ranges: Ranges, leads: int) -> Ranges:
    """The characters in the ranges whose first byte is in the set."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        code = low
        while code <= high:
            end = min(_last_like(code), high)
            if leads >> _lead(code) & 1:
                found.append((code, end))
            code = end + 1
    return tuple(found)


def _last_like(code: int) -> int:
    """The last character with the same first byte."""
    if code < 0x80:
        return code
    if code < 0x800:
        return code | 0x3F
    return code | 0xFFF if code < 0x10000 else code | 0x3FFFF


def _lead(code: int) -> int:
    if code < 0x80:
        return code
    if code < 0x800:
        return 0xC0 | code >> 6
    return 0xE0 | code >> 12 if code < 0x10000 else 0xF0 | code >> 18
