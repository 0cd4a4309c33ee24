"""Runs an ASGI application for one call and gives its answer as plain data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import ASGIApp, Message

from llmserve.ray.calls import Call, Head

_END_S = 5.0
"""How long the application has to notice that the client has left."""


class Exchange:
    """One call in an application."""

    def __init__(self, app: ASGIApp, call: Call) -> None:
        self._app = app
        self._call = call
        self._is_read = False
        self._left = asyncio.Event()
        # Ends with `None`.
        self._sent: asyncio.Queue[Head | bytes | None] = asyncio.Queue()

    async def answer(self) -> AsyncGenerator[Head | bytes, None]:
        """The head, then the body in parts. To close the generator means that the client has left.

        Raises what the application raises.
        """
        running = asyncio.create_task(self._run())
        try:
            is_over = False
            while not is_over:
                parts = [await self._sent.get()]
                while not self._sent.empty():
                    parts.append(self._sent.get_nowait())
                is_over = parts[-1] is None
                if isinstance(parts[0], Head):
                    yield parts[0]
                if body := b"".join(part for part in parts if isinstance(part, bytes)):
                    yield body
            await running
        finally:
            self._left.set()
            await asyncio.wait({running}, timeout=_END_S)
            running.cancel()

    async def _run(self) -> None:
        try:
            # Applications write into their scopes.
            await self._app(dict(self._call.scope), self._receive, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._call.body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = tuple((bytes(name), bytes(value)) for name, value in message.get("headers", ()))
            self._sent.put_nowait(Head(message["status"], headers))
        elif body := message.get("body", b""):
            self._sent.put_nowait(bytes(body))
