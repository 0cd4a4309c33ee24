"""Lines of JSON. Unlike events they know no comments, so a stream that waits says nothing."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from llmserve.server.web.streams import StreamFormat

LINES = StreamFormat(b"application/x-ndjson")

_LINE_ENDS: Mapping[bytes, bytes] = {
    char.encode(): f"\\u{ord(char):04x}".encode() for char in ("\x85", "\u2028", "\u2029")
}
"""Characters at which Python's clients end a line, too (`str.splitlines`), and how JSON escapes them; others
of the kind always are escaped."""


def line(value: object) -> bytes:
    """One value as a line."""
    text = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    for char, escaped in _LINE_ENDS.items():
        text = text.replace(char, escaped)
    return text
