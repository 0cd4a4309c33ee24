"""Reads request bodies: each within a time, all of them together within a budget of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import orjson
from starlette.requests import Request

from llmserve.server.refusals import BodiesFullError, BodyTimeoutError, MalformedBodyError
from llmserve.server.web.schema import kind_of

T = TypeVar("T")

MAX_DEPTH = 128
"""Maximum number of levels of objects and arrays in a body. Templates, schemas and JSON writers descend into
them, and none of them has a lower limit."""

MAX_PARTS = 250_000
"""Maximum number of objects, arrays and members of objects in a body. Each is made and freed under the
interpreter's lock: five million empty arrays stop everybody's streams for seconds."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

SMALL_BYTES = 256 << 10
"""Larger bodies are read beside the event loop, which runs between the steps of the Python code that checks
their fields. orjson holds the interpreter's lock meanwhile: 25 ms for 16 MiB of text, 150 to 250 ms of
numbers, which have no limit: the token ids that `/v1/embeddings` takes cost as much as any others."""


class Bodies:
    """Reads the bodies of all requests, of which at most ``max_bytes`` are held at once.

    A body is held until it has been converted: routes run without it.
    """

    def __init__(self, timeout_s: float, max_bytes: int) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self.num_bytes = 0

    async def read(self, request: Request, make: Callable[[bytearray], T]) -> T:
        """What ``make`` makes of a request's body; it is called on another thread if the body is large.

        Raises:
            BodyTimeoutError: The body did not arrive in time.
            BodiesFullError: All bodies together exceed their limit.
            BodyTooLargeError: The body exceeds the limit of a single one.
        """
        body = bytearray()
        try:
            with anyio.move_on_after(self._timeout_s) as patience:
                await self._take(request, body)
            if patience.cancelled_caught:
                raise BodyTimeoutError(self._timeout_s)
            if len(body) <= SMALL_BYTES:
                return make(body)
            return await anyio.to_thread.run_sync(make, body)
        finally:
            self.num_bytes -= len(body)

    async def _take(self, request: Request, body: bytearray) -> None:
        async with aclosing(request.stream()) as chunks:
            async for chunk in chunks:
                if self.num_bytes + len(chunk) > self._max_bytes:
                    raise BodiesFullError(self._max_bytes)
                self.num_bytes += len(chunk)
                body += chunk


def parse_object(body: bytes | bytearray, *, may_be_empty: bool = False) -> dict[str, Any]:
    """A body as a JSON object (RFC 8259; UTF-8, no NaN or infinity).

    An empty body is read as an empty object if it ``may_be_empty``.

    Raises:
        MalformedBodyError: The body is not a JSON object.
    """
    if not body:
        if may_be_empty:
            return {}
        raise MalformedBodyError("the body must be a JSON object, got an empty body")
    num_containers = body.count(b"[") + body.count(b"{")
    if num_containers + body.count(b":") > MAX_PARTS:
        _check_parts(_TEXT.sub(b"", body))
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedBodyError(f"the body must be a JSON object, got {kind_of(value)}")
    # Few bodies have that many brackets at all.
    if num_containers > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_parts(structure: bytes | bytearray) -> None:
    """Refuses a body by what is left of it without its texts."""
    if sum(structure.count(mark) for mark in (b"[", b"{", b":")) > MAX_PARTS:
        raise MalformedBodyError(
            f"the body must have at most {MAX_PARTS} objects, arrays and members of objects"
        )


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return
    raise MalformedBodyError(f"the body must have at most {MAX_DEPTH} levels of objects and arrays")


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
