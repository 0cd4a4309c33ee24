"""One request and its answer, as a dialect's route sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.types import Send

from llmserve.http.schema import kind_of
from llmserve.http.sse import EventWriter, StreamLimits
from llmserve.refusals import MalformedBodyError

Headers = Mapping[str, str]


class Exchange:
    """Reads the request's object; sends one answer.

    A route runs until its answer has been sent, so what it opens with ``with`` lives as long as that. When
    the client leaves, it is cancelled.
    """

    def __init__(self, request: Request, send: Send, limits: StreamLimits) -> None:
        self.request = request
        self._send = send
        self._limits = limits

    async def read_object(self, *, may_be_empty: bool = False) -> dict[str, Any]:
        """The body, a JSON object (RFC 8259; UTF-8, no NaN or infinity). The content type is not looked at.

        An empty body is read as an empty object where it ``may_be_empty``.

        Raises:
            MalformedBodyError: It is none.
            BodyTooLargeError: It is over the limit.
        """
        body = await self.request.body()
        if not body:
            if may_be_empty:
                return {}
            raise MalformedBodyError("the body must be a JSON object, got an empty body")
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise MalformedBodyError(f"the body is not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise MalformedBodyError(f"the body must be a JSON object, got {kind_of(value)}")
        return value

    async def send_json(self, value: object, *, status: int = 200, headers: Headers | None = None) -> None:
        """Answers with JSON."""
        await self.send_bytes(orjson.dumps(value), "application/json", status=status, headers=headers)

    async def send_bytes(
        self, body: bytes, media_type: str, *, status: int = 200, headers: Headers | None = None
    ) -> None:
        """Answers with a body that is complete."""
        raw = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
            *_encode(headers),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def send_events(
        self,
        frames: AsyncGenerator[bytes, None],
        render_error: Callable[[Exception], bytes],
        *,
        headers: Headers | None = None,
    ) -> None:
        """Answers with a stream of server-sent events; an exception of ``frames`` becomes its last frame.

        Raises:
            ClientStalledError: The client stopped reading.
            AnswerFailedError: The last frame is a fault.
        """
        await EventWriter(self._send, self._limits, render_error).write(frames, _encode(headers))


def _encode(headers: Headers | None) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
