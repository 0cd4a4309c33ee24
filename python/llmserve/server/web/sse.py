"""Server-sent events: frames, and the format of their streams.

Format: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

from llmserve.server.web.streams import StreamFormat

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"

EVENT_STREAM = StreamFormat(b"text/event-stream; charset=utf-8", PING)


def data_frame(payload: bytes) -> bytes:
    """One ``data:`` event. JSON has no raw line breaks, so one line is enough."""
    return b"data: " + payload + b"\n\n"


def event_frame(kind: str, payload: bytes) -> bytes:
    """One event of a type."""
    return b"event: " + kind.encode() + b"\n" + data_frame(payload)


def error_frame(payload: bytes) -> bytes:
    """One event of type ``error``."""
    return event_frame("error", payload)
