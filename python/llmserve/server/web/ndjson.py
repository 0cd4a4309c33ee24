"""Lines of JSON. Unlike events they know no comments, so a stream that waits says nothing."""

from __future__ import annotations

import orjson

from llmserve.server.web.streams import StreamFormat

LINES = StreamFormat(b"application/x-ndjson")


def line(value: object) -> bytes:
    """One value as a line."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
