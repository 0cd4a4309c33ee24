"""One answer on its way out."""

from __future__ import annotations

from starlette.types import Message, Send

CLIENT_LEFT = 499
"""Stands for the status of a request whose client left before the answer began."""


class Answer:
    """Adds headers to an answer, and knows how far it is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers: list[tuple[bytes, bytes]] = []
        """What its head gets beside the headers of its own."""
        self.status = CLIENT_LEFT
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        """Whether its status can no longer change."""
        return self.status != CLIENT_LEFT

    async def send(self, message: Message) -> None:
        """Passes a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self.headers]}
        elif not message.get("more_body", False):
            self.is_complete = True
        await self._send(message)
