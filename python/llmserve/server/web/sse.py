"""Server-sent events: frames, and how they are sent.

Format: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Message, Send

from llmserve.server.web.writing import Writer

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"

_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Otherwise nginx would buffer the stream.
    (b"x-accel-buffering", b"no"),
)


def data_frame(payload: bytes) -> bytes:
    """One ``data:`` event. JSON has no raw line breaks, so one line is enough."""
    return b"data: " + payload + b"\n\n"


def event_frame(kind: str, payload: bytes) -> bytes:
    """One event of a type."""
    return b"event: " + kind.encode() + b"\n" + data_frame(payload)


def error_frame(payload: bytes) -> bytes:
    """One event of type ``error``."""
    return event_frame("error", payload)


class AnswerFailedError(Exception):
    """An answer that had begun ended with an error, of which only its client has been told."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Time limits of a stream, in seconds."""

    ping_s: float
    stall_s: float


async def write_events(
    send: Send,
    limits: StreamLimits,
    frames: AsyncGenerator[bytes, None],
    headers: Sequence[tuple[bytes, bytes]],
    render_error: Callable[[Exception], bytes],
    ping: bytes = PING,
) -> None:
    """Sends the head, every frame, and the end of the body; a fault of ``frames`` becomes its last frame.

    Raises:
        ClientStalledError: The client stopped reading; the response is left unfinished.
        AnswerFailedError: The last frame is a fault; the response is complete.
    """
    failure: Exception | None = None
    async with Writer(send, limits.stall_s, ping=_body(ping), ping_s=limits.ping_s) as writer:
        async with aclosing(frames):
            await writer.write(
                {"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]}
            )
            await writer.write(_body(b""))  # sends the head before the first frame is there
            try:
                async for frame in frames:
                    await writer.write(_body(frame))
            except Exception as error:
                failure = error
                await writer.write(_body(render_error(error)))
        await writer.write(_body(b"", more=False))
    if failure is not None:
        raise AnswerFailedError(failure)


def _body(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}
