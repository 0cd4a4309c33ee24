"""One request and its answer, as a dialect's route sees them."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.types import Message, Send

from llmserve.server.web.bodies import Bodies, parse_object
from llmserve.server.web.ndjson import LINES
from llmserve.server.web.schema import Parsed, read
from llmserve.server.web.sse import EVENT_STREAM
from llmserve.server.web.streams import StreamFormat, StreamLimits, write_stream
from llmserve.server.web.wire_names import in_wire_names
from llmserve.server.web.writing import send_in_time

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

_PIECE_BYTES = 64 << 10

Headers = Mapping[str, str]


class Exchange:
    """Reads the request's object; sends one answer.

    A route runs until its answer has been sent, so what it opens with ``with`` lives as long as that. When
    the client leaves, it is cancelled.
    """

    def __init__(self, request: Request, send: Send, limits: StreamLimits, bodies: Bodies) -> None:
        self.request = request
        self._bodies = bodies
        self._send = send
        self._limits = limits
        self._body: object = None
        """The body as it was read."""

    async def read(self, cls: type[T], *, may_be_empty: bool = False) -> Parsed[T]:
        """The body, a JSON object, as the dataclass ``cls``.

        Raises what `read_as` raises.
        """
        return await self.read_as(functools.partial(read, cls), may_be_empty=may_be_empty)

    async def read_as(self, make: Callable[[dict[str, Any]], T], *, may_be_empty: bool = False) -> T:
        """What ``make`` makes of the body, a JSON object. The content type is not looked at.

        An empty body is read as an empty object if it ``may_be_empty``.

        Raises:
            MalformedBodyError: The body is not a JSON object.
            FieldError: A field of the body is wrong.
            BodyTooLargeError: The body exceeds the limit.
            BodyTimeoutError: The body did not arrive in time.
            BodiesFullError: All bodies together exceed their limit.
        """
        made = await self._bodies.read(
            self.request, lambda body: make(parse_object(body, may_be_empty=may_be_empty))
        )
        self._body = made.value if isinstance(made, Parsed) else made
        return made

    def named(self, error: E) -> E:
        """The error, with a field of the engine as the client named it in the body."""
        return error if self._body is None else in_wire_names(error, self._body)

    async def send_json(self, value: object, *, status: int = 200, headers: Headers | None = None) -> None:
        """Answers with JSON."""
        await self.send_bytes(orjson.dumps(value), "application/json", status=status, headers=headers)

    async def send_bytes(
        self, body: bytes, media_type: str, *, status: int = 200, headers: Headers | None = None
    ) -> None:
        """Answers with a complete body.

        Raises:
            ClientStalledError: The client stopped reading.
        """
        raw = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
            *_encode(headers),
        ]
        await self._send_in_time({"type": "http.response.start", "status": status, "headers": raw})
        # The server takes the next piece of a large body once the client has read some of the earlier ones.
        rest = memoryview(body)
        while len(rest) > _PIECE_BYTES:
            piece, rest = bytes(rest[:_PIECE_BYTES]), rest[_PIECE_BYTES:]
            await self._send_in_time({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send_in_time({"type": "http.response.body", "body": bytes(rest), "more_body": False})

    async def send_head(self, status: int, headers: Headers) -> None:
        """Answers with a status that has no body.

        Raises:
            ClientStalledError: The client stopped reading.
        """
        await self._send_in_time(
            {"type": "http.response.start", "status": status, "headers": _encode(headers)}
        )
        await self._send_in_time({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_in_time(self, message: Message) -> None:
        await send_in_time(self._send, message, self._limits.stall_s)

    async def send_events(
        self,
        frames: AsyncGenerator[bytes, None],
        render_error: Callable[[Exception], bytes],
        *,
        headers: Headers | None = None,
        stream: StreamFormat = EVENT_STREAM,
    ) -> None:
        """Answers with a stream of server-sent events; an exception of ``frames`` becomes its last frame.

        Raises:
            ClientStalledError: The client stopped reading.
            AnswerFailedError: The last frame is a fault.
        """
        await self._send_stream(stream, frames, render_error, headers)

    async def send_lines(
        self,
        lines: AsyncGenerator[bytes, None],
        render_error: Callable[[Exception], bytes],
        *,
        headers: Headers | None = None,
    ) -> None:
        """Answers with a stream of lines of JSON, as `send_events` does with events."""
        await self._send_stream(LINES, lines, render_error, headers)

    async def _send_stream(
        self,
        format_: StreamFormat,
        frames: AsyncGenerator[bytes, None],
        render_error: Callable[[Exception], bytes],
        headers: Headers | None,
    ) -> None:
        def render(error: Exception) -> bytes:
            return render_error(self.named(error))

        await write_stream(self._send, self._limits, format_, frames, _encode(headers), render)


def _encode(headers: Headers | None) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
