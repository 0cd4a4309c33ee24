"""One answer on its way out."""

from __future__ import annotations

from starlette.types import Message, Send

CLIENT_LEFT = 499
"""Stands for the status of a request whose client left before the answer began."""


class Answer:
    """Adds headers to an answer, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers: list[tuple[bytes, bytes]] = []
        """Headers that are added to the answer's own."""
        self.status = CLIENT_LEFT
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        """Whether the answer has begun, so that its status can no longer change."""
        return self.status != CLIENT_LEFT

    async def send(self, message: Message) -> None:
        """Passes a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self.headers]}
        elif not message.get("more_body", False):
            self.is_complete = True
        await self._send(message)
