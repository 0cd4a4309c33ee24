"""Server-sent events: frames, and a writer that keeps the connection alive and finite.

Format: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import anyio
from starlette.types import Message, Send

from llmserve.server.web.tasks import end_task

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"

_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx would collect the stream otherwise.
    (b"x-accel-buffering", b"no"),
)


def data_frame(payload: bytes) -> bytes:
    """One ``data:`` event. JSON has no raw line breaks, so one line is enough."""
    return b"data: " + payload + b"\n\n"


def error_frame(payload: bytes) -> bytes:
    """One event of type ``error``."""
    return b"event: error\ndata: " + payload + b"\n\n"


class ClientStalledError(Exception):
    """The client has read nothing for too long."""


async def send_in_time(send: Send, message: Message, stall_s: float) -> None:
    """Sends one message.

    Raises:
        ClientStalledError: The client takes nothing of what was sent before.
    """
    with anyio.move_on_after(stall_s) as patience:
        await send(message)
    if patience.cancelled_caught:
        raise ClientStalledError


class AnswerFailedError(Exception):
    """An answer that had begun ended with an error. Its client was told; whoever logs and counts was not."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Times of a stream, in seconds."""

    ping_s: float
    stall_s: float


class EventWriter:
    """Writes frames as one response.

    A watchdog of one timer, not one per frame, sends a comment whenever nothing was sent for ``ping_s``,
    and cuts a client off that has taken nothing for ``stall_s``.
    """

    def __init__(self, send: Send, limits: StreamLimits, render_error: Callable[[Exception], bytes]) -> None:
        self._send = send
        self._render_error = render_error
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._lock = asyncio.Lock()
        self._sent_at = self._clock()
        self._sending_since: float | None = None

    async def write(
        self, frames: AsyncGenerator[bytes, None], headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Sends the head, every frame, and the end of the body; a fault of ``frames`` becomes its last frame.

        Raises:
            ClientStalledError: The client stopped reading; the response is left unfinished.
            AnswerFailedError: The last frame is a fault; the response is complete.
        """
        head = {"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]}
        writing = asyncio.create_task(self._write_frames(head, frames))
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({writing, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also when this task itself is cancelled, because the client has gone.
            was_stalled = watching.done() and not writing.done()
            await end_task(writing)
            await end_task(watching)
        if was_stalled:
            watching.result()
        writing.result()

    async def _write_frames(self, head: Message, frames: AsyncGenerator[bytes, None]) -> None:
        failure: Exception | None = None
        async with aclosing(frames):
            await self._send_message(head)
            await self._send_body(b"", more=True)  # so that the head leaves before the first frame is there
            try:
                async for frame in frames:
                    await self._send_body(frame, more=True)
            except Exception as error:
                failure = error
                await self._send_body(self._render_error(error), more=True)
        await self._send_body(b"", more=False)
        if failure is not None:
            raise AnswerFailedError(failure)

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        await self._send_message({"type": "http.response.body", "body": body, "more_body": more})

    async def _send_message(self, message: Message) -> None:
        async with self._lock:
            self._sending_since = self._clock()
            await self._send(message)
            self._sent_at = self._clock()
            self._sending_since = None

    async def _watch(self) -> None:
        while True:
            now = self._clock()
            if self._sending_since is not None:
                due = self._sending_since + self._limits.stall_s
                if now >= due:
                    raise ClientStalledError
            else:
                due = self._sent_at + self._limits.ping_s
                if now >= due:
                    await self._ping()
                    continue
            # A send that begins while this sleeps is looked at in time.
            await asyncio.sleep(min(due - now, self._limits.ping_s, self._limits.stall_s))

    async def _ping(self) -> None:
        # Not `wait_for`: until Python 3.12 it may swallow a cancellation that comes with the result.
        sending = asyncio.create_task(self._send_body(PING, more=True))
        try:
            await asyncio.wait({sending}, timeout=self._limits.stall_s)
            if not sending.done():
                raise ClientStalledError
            sending.result()
        finally:
            await end_task(sending)
