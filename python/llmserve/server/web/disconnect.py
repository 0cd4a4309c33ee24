"""Ends a request's work as soon as its client has gone, and keeps bodies within the limit.

ASGI tells of a disconnect through ``receive`` only. Here one task runs the application and, once the body
has been read, another waits in ``receive``; a disconnect cancels the first, wherever it stands: in the
queue, in the prompt phase, between two tokens. Nothing behind this middleware needs to look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmserve.server.refusals import BodyTooLargeError
from llmserve.server.web.headers import header
from llmserve.server.web.tasks import end_task

logger = logging.getLogger(__name__)


class ClientConnection:
    """One request's ``receive`` and ``send``, counted and watched.

    ``on_unwatchable`` is called where no disconnect can be heard of.
    """

    def __init__(
        self, receive: Receive, send: Send, max_body_bytes: int, on_unwatchable: Callable[[], object]
    ) -> None:
        self._receive = receive
        self._send = send
        self._limit = max_body_bytes
        self._on_unwatchable = on_unwatchable
        self._num_bytes = 0
        self._watch: asyncio.Task[None] | None = None
        self._is_answered = False
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        """The next message for the application.

        Raises:
            BodyTooLargeError: The body has exceeded the limit.
        """
        if self._watch is not None:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone.set()
            return message
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._limit:
            raise BodyTooLargeError(self._limit)
        if not message.get("more_body", False):
            self._watch = asyncio.create_task(self._wait_for_disconnect())
        return message

    async def _wait_for_disconnect(self) -> None:
        if (await self._receive())["type"] != "http.disconnect":
            # Asking on would hold the loop for ever where `receive` never waits.
            self._on_unwatchable()
            return
        # Servers also report a disconnect once the answer is complete: the work may then end in peace.
        if not self._is_answered:
            self.gone.set()

    async def send(self, message: Message) -> None:
        """Passes a message on; notes the last one."""
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._is_answered = True
        await self._send(message)

    async def close(self) -> None:
        """Stops watching."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})


class ConnectionMiddleware:
    """Cancels the application when the client has gone; refuses bodies over ``max_body_bytes``."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._limit = max_body_bytes
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > self._limit:
            raise BodyTooLargeError(self._limit)
        connection = ClientConnection(receive, send, self._limit, self._warn_once)
        work = asyncio.create_task(self._run(scope, connection))
        gone = asyncio.create_task(connection.gone.wait())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Reached by the end of the work, by the client's leaving, or because the server gives up on us.
            await end_task(work)
            await end_task(gone)
            await connection.close()
        if not work.cancelled():
            work.result()

    async def _run(self, scope: Scope, connection: ClientConnection) -> None:
        await self._app(scope, connection.receive, connection.send)

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a middleware around this application repeats bodies after their end: requests continue "
                "when their clients disconnect"
            )
