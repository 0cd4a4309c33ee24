"""Request bodies on their way in, and what becomes of those that are answered before they have arrived."""

from __future__ import annotations

import anyio
from starlette.types import Message, Receive, Scope

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.web.headers import header

_SMALL_BYTES = 64 << 10
"""What servers read and drop by themselves, so that the connection goes on."""
_LINGER_S = 5.0


class Upload:
    """One request's body: knows whether it has arrived, and can drop what is still to come.

    A connection that is closed while its client sends is reset, and the client may lose the answer. One that
    is not closed takes all that the client declared, be it gigabytes that nobody will read. So the rest of a
    large body is dropped for a while after the answer, and then the connection ends.
    """

    def __init__(self, scope: Scope, receive: Receive, max_rest_bytes: int, lifecycle: Lifecycle) -> None:
        """``max_rest_bytes`` is how much is dropped at most."""
        self._receive = receive
        self._max_rest_bytes = max_rest_bytes
        self._lifecycle = lifecycle
        length = header(scope, b"content-length")
        num_bytes = int(length) if length is not None and length.isdigit() else 0
        is_chunked = header(scope, b"transfer-encoding") is not None
        self._has_arrived = not is_chunked and num_bytes == 0
        self._is_small = not is_chunked and num_bytes <= _SMALL_BYTES
        # HTTP/2 ends streams, not connections.
        self._can_close = str(scope.get("http_version", "1.1")).startswith("1")

    @property
    def must_linger(self) -> bool:
        """Whether an answer now must end the connection, after `discard`."""
        return self._can_close and not self._has_arrived and not self._is_small

    async def receive(self) -> Message:
        """ASGI's ``receive`` of the request."""
        message = await self._receive()
        if not message.get("more_body", False):
            self._has_arrived = True
        return message

    async def discard(self) -> None:
        """Drops the rest of the body, as far as it arrives soon and is not too much; the stop ends it."""
        num_bytes = 0
        with anyio.move_on_after(_LINGER_S) as patience, self._lifecycle.running(patience.cancel):
            while not self._has_arrived and num_bytes <= self._max_rest_bytes:
                num_bytes += len((await self.receive()).get("body", b""))
