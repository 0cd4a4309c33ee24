"""Ends a request's work as soon as its client has gone, and keeps bodies within the limit.

ASGI reports a disconnect through ``receive`` only. Once the body has been read, a watchdog waits there; a
disconnect ends the work wherever it is: in the queue, in the prompt phase, between two tokens. No
handler needs to check.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from llmserve.server.refusals import BodyTooLargeError
from llmserve.server.web.answer import Answer
from llmserve.server.web.headers import header
from llmserve.server.web.tasks import Watchdog

logger = logging.getLogger(__name__)


class Connections:
    """Watches the connections of requests, whose bodies have at most ``max_body_bytes``."""

    def __init__(self, max_body_bytes: int) -> None:
        self._limit = max_body_bytes
        self._has_warned = False

    @asynccontextmanager
    async def watched(self, scope: Scope, receive: Receive, answer: Answer) -> AsyncGenerator[Receive, None]:
        """The ``receive`` that the request is to be read with. The context ends when its client leaves.

        Raises:
            ClientDisconnect: The client has left.
            BodyTooLargeError: The body is over the limit.
        """
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            yield receive
            return
        declared = header(scope, b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > self._limit:
            raise BodyTooLargeError(self._limit)
        async with Watchdog() as watchdog:
            yield _Connection(receive, answer, self._limit, watchdog, self._warn_once).receive

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a middleware around this application repeats bodies after their end: requests continue "
                "when their clients disconnect"
            )


class _Connection:
    """One request's ``receive``, counted and watched.

    ``on_unwatchable`` is called if no disconnect can be noticed.
    """

    def __init__(
        self,
        receive: Receive,
        answer: Answer,
        max_body_bytes: int,
        watchdog: Watchdog,
        on_unwatchable: Callable[[], object],
    ) -> None:
        self._receive = receive
        self._answer = answer
        self._limit = max_body_bytes
        self._watchdog = watchdog
        self._on_unwatchable = on_unwatchable
        self._num_bytes = 0
        self._is_read = False
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        if self._is_read:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            return message
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._limit:
            raise BodyTooLargeError(self._limit)
        if not message.get("more_body", False):
            self._is_read = True
            self._watchdog.start(self._wait_for_disconnect())
        return message

    async def _wait_for_disconnect(self) -> None:
        if (await self._receive())["type"] != "http.disconnect":
            # Asking again would block the loop for ever if `receive` never waits.
            self._on_unwatchable()
            return
        # Servers also report a disconnect once the answer is complete: the work may then end in peace.
        if not self._answer.is_complete:
            self._gone.set()
            raise ClientDisconnect
