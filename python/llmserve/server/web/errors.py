"""Turns exceptions into answers: the status from the one table, the body in the dialect's shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import orjson
from starlette.types import Send

from llmserve.server.refusals import (
    BodyTimeoutError,
    CallCancelledError,
    MethodNotAllowedError,
    NotSupportedError,
    ServerDrainingError,
    ServerStoppingError,
    UnauthorizedError,
)
from llmserve.server.web.error_table import INTERNAL, Rule, retry_after, rule_for
from llmserve.server.web.fields import Field
from llmserve.server.web.request_id import current_request_id
from llmserve.server.web.uploads import Upload
from llmserve.server.web.writing import send_in_time

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception as a dialect may show it."""

    status: int
    message: str
    rule: Rule
    error: BaseException
    """The exception itself, for its fields."""


RenderFault = Callable[[Fault], object]
"""A dialect's JSON body of a fault."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""


def no_headers(fault: Fault) -> RawHeaders:
    """For dialects without headers of their own."""
    return ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """What all endpoints of a dialect have in common."""

    name: str
    render: RenderFault
    error: type
    """The schema of what `render` gives."""
    root: str = ""
    """If there is one, paths below it that have no endpoint are answered in this dialect."""
    fault_headers: Callable[[Fault], RawHeaders] = no_headers
    """The dialect's own headers of a fault."""
    answer_headers: Callable[[], RawHeaders] = tuple
    """The dialect's own headers of every answer."""
    header_names: Sequence[str] = ()
    """The names of all the dialect's own headers: CORS tells pages that they may read them."""


def plain_render(fault: Fault) -> object:
    """The shape of errors that belong to no dialect."""
    return {"error": fault.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainError:
    """Why a request was refused or failed."""

    error: Annotated[str, Field("What is wrong.", example="no such route")]


PLAIN = Dialect("", plain_render, PlainError)


def fault_of(error: BaseException, dialect: str) -> Fault:
    """What a client may see of an exception; of an unexpected one, which is logged, only the request id."""
    rule = rule_for(error)
    if rule is None:
        logger.error("request %s failed", current_request_id(), exc_info=error)
        return Fault(500, f"internal error (request {current_request_id()})", INTERNAL, error)
    return Fault(rule.status_for(dialect), str(error), rule, error)


CLOSE = (b"connection", b"close")

_BUSY = (503, 529)
"""The statuses with which a client tries again later; the second is Anthropic's."""


def fault_headers(fault: Fault) -> list[tuple[bytes, bytes]]:
    """``Retry-After`` (of a busy server), ``Allow``, ``WWW-Authenticate`` and the like, where they apply."""
    headers: list[tuple[bytes, bytes]] = []
    if fault.status in _BUSY and (seconds := retry_after(fault.error, fault.rule)) is not None:
        headers.append((b"retry-after", seconds.encode()))
    if isinstance(fault.error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(fault.error.allowed).encode()))
    if isinstance(fault.error, BodyTimeoutError):
        # RFC 9110, section 15.5.9: otherwise the rest of the body would be read for as long as it takes.
        headers.append(CLOSE)
    if isinstance(fault.error, ServerDrainingError | ServerStoppingError):
        # The next request is to go to another server, over a connection of its own.
        headers.append(CLOSE)
    if isinstance(fault.error, UnauthorizedError):
        # RFC 6750, section 3: the code only where a key was sent.
        detail = b', error="invalid_token"' if fault.error.was_given else b""
        headers.append((b"www-authenticate", b'Bearer realm="llmserve"' + detail))
    if isinstance(fault.error, NotSupportedError | CallCancelledError):
        # OpenAI's clients repeat requests that got a 409 or 5xx, unless they are told not to.
        headers.append((b"x-should-retry", b"false"))
    return headers


async def send_fault(fault: Fault, dialect: Dialect, send: Send, stall_s: float, upload: Upload) -> None:
    """Answers with a fault in the shape of a dialect; the rest of the request's body is dropped.

    Raises:
        ClientStalledError: The client stopped reading.
    """
    body = orjson.dumps(dialect.render(fault))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *fault_headers(fault),
        *dialect.fault_headers(fault),
    ]
    must_linger = upload.must_linger
    if must_linger and CLOSE not in headers:
        headers.append(CLOSE)
    start = {"type": "http.response.start", "status": fault.status, "headers": headers}
    await send_in_time(send, start, stall_s)
    await send_in_time(send, {"type": "http.response.body", "body": body, "more_body": must_linger}, stall_s)
    if must_linger:
        # By its length the client knows that the answer is complete; for the server it ends here.
        await upload.discard()
        await send_in_time(send, {"type": "http.response.body", "body": b"", "more_body": False}, stall_s)
