"""Turns exceptions into answers: the status from the one table, the body in the dialect's shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmserve.server.refusals import (
    BodyTimeoutError,
    CallCancelledError,
    MethodNotAllowedError,
    NotSupportedError,
    UnauthorizedError,
)
from llmserve.server.web.counters import HttpCounters
from llmserve.server.web.error_table import INTERNAL, Rule, retry_after, rule_for
from llmserve.server.web.request_id import current_request_id
from llmserve.server.web.sse import AnswerFailedError, ClientStalledError, send_in_time

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
class ErrorShape:
    """A dialect's way to show errors, for the routes under a prefix."""

    dialect: str
    prefix: str
    render: RenderFault
    headers: Callable[[Fault], RawHeaders] = no_headers
    """The dialect's own headers of a fault."""


def default_render(fault: Fault) -> object:
    """The shape of everything that belongs to no dialect."""
    return {"error": fault.message}


DEFAULT_SHAPE = ErrorShape("", "/", default_render)


def fault_of(error: BaseException, dialect: str) -> Fault:
    """What may be shown of an exception. Unexpected ones go to the log and show the request id only."""
    rule = rule_for(error)
    if rule is None:
        logger.error("request %s failed", current_request_id(), exc_info=error)
        return Fault(500, f"internal error (request {current_request_id()})", INTERNAL, error)
    return Fault(rule.status_for(dialect), str(error), rule, error)


def fault_headers(fault: Fault) -> list[tuple[bytes, bytes]]:
    """``Retry-After`` (of a 503), ``Allow``, ``WWW-Authenticate`` and the like, where they apply."""
    headers: list[tuple[bytes, bytes]] = []
    if fault.status == 503 and (seconds := retry_after(fault.error, fault.rule)) is not None:
        headers.append((b"retry-after", seconds.encode()))
    if isinstance(fault.error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(fault.error.allowed).encode()))
    if isinstance(fault.error, BodyTimeoutError):
        # RFC 9110, section 15.5.9: else the rest of the body would be read for as long as it takes.
        headers.append((b"connection", b"close"))
    if isinstance(fault.error, UnauthorizedError):
        # RFC 6750, section 3: the code only where a key was sent.
        detail = b', error="invalid_token"' if fault.error.was_given else b""
        headers.append((b"www-authenticate", b'Bearer realm="llmserve"' + detail))
    if isinstance(fault.error, NotSupportedError | CallCancelledError):
        # OpenAI's clients repeat requests that a 409 or 5xx answered, unless they are told.
        headers.append((b"x-should-retry", b"false"))
    return headers


class ErrorMiddleware:
    """Answers exceptions of the application; once an answer has begun, they are logged and counted."""

    def __init__(
        self, app: ASGIApp, shapes: Sequence[ErrorShape], counters: HttpCounters, stall_s: float
    ) -> None:
        self._app = app
        self._stall_s = stall_s
        self._counters = counters
        # The longest prefix is the nearest.
        self._shapes = sorted(shapes, key=lambda shape: -len(shape.prefix))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        has_started = False

        async def watched_send(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except ClientDisconnect:
            logger.debug("request %s: the client left before its body was complete", current_request_id())
        except ClientStalledError:
            logger.warning("request %s: cut off, its client stopped reading", current_request_id())
            raise
        except AnswerFailedError as failed:
            self._note(failed.error, self._shape(scope).dialect)
        except Exception as error:
            shape = self._shape(scope)
            fault = fault_of(error, shape.dialect)
            if has_started:
                self._note(error, shape.dialect)
            else:
                await self._answer(fault, shape, send)

    def _note(self, error: Exception, dialect: str) -> None:
        """Logs and counts an error that no status tells of. An unexpected one is in the log already."""
        rule = rule_for(error)
        status = (rule or INTERNAL).status_for(dialect)
        self._counters.late_errors[status] += 1
        if rule is not None:
            level = logging.WARNING if status >= 500 else logging.INFO
            logger.log(level, "request %s failed after its answer began: %s", current_request_id(), error)

    def _shape(self, scope: Scope) -> ErrorShape:
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        return next((shape for shape in self._shapes if path.startswith(shape.prefix)), DEFAULT_SHAPE)

    async def _answer(self, fault: Fault, shape: ErrorShape, send: Send) -> None:
        body = orjson.dumps(shape.render(fault))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *fault_headers(fault),
            *shape.headers(fault),
        ]
        start = {"type": "http.response.start", "status": fault.status, "headers": headers}
        await send_in_time(send, start, self._stall_s)
        await send_in_time(
            send, {"type": "http.response.body", "body": body, "more_body": False}, self._stall_s
        )
