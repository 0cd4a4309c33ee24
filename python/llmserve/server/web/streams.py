"""Answers that are sent in parts, whatever their parts look like."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Message, Send

from llmserve.server.web.writing import Writer


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


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """A media type of streams."""

    media_type: bytes
    ping: bytes | None = None
    """What is sent where nothing else is; `None`: the format has nothing that clients pass over."""

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of every stream."""
        return (
            (b"content-type", self.media_type),
            (b"cache-control", b"no-cache"),
            # Otherwise nginx would buffer the stream.
            (b"x-accel-buffering", b"no"),
        )


async def write_stream(
    send: Send,
    limits: StreamLimits,
    format_: StreamFormat,
    frames: AsyncGenerator[bytes, None],
    headers: Sequence[tuple[bytes, bytes]],
    render_error: Callable[[Exception], bytes],
) -> None:
    """Sends the head, every frame, and the end of the body; a fault of ``frames`` becomes its last frame.

    Raises:
        ClientStalledError: The client stopped reading; the response is left unfinished.
        AnswerFailedError: The last frame is a fault; the response is complete.
    """
    failure: Exception | None = None
    ping = None if format_.ping is None else _body(format_.ping)
    async with Writer(send, limits.stall_s, ping=ping, ping_s=limits.ping_s) as writer:
        async with aclosing(frames):
            await writer.write(
                {"type": "http.response.start", "status": 200, "headers": [*format_.headers, *headers]}
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
