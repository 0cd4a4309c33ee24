"""Clients that send a request behind one that is being answered, and leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from llmserve.server.http_protocol import HttpProtocol
from llmserve.server.web.answer import Answer
from llmserve.server.web.disconnect import Connections

PATIENCE_S = 60


class Application:
    """Answers nothing; knows whose requests were read, and whose clients left."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.left: list[str] = []
        self._changed = asyncio.Condition()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Answer(send)
        try:
            async with Connections(1 << 20).watched(scope, receive, answer) as watched:
                await Request(scope, watched).body()
                if scope["path"].startswith("/stream"):
                    await answer.send({"type": "http.response.start", "status": 200, "headers": []})
                await self._note(self.read, scope["path"])
                await asyncio.Event().wait()
        except ClientDisconnect:
            await self._note(self.left, scope["path"])

    async def _note(self, paths: list[str], path: str) -> None:
        async with self._changed:
            paths.append(path)
            self._changed.notify_all()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(holds)


@asynccontextmanager
async def listening(app: Application) -> AsyncGenerator[int, None]:
    config = uvicorn.Config(app, http=HttpProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpProtocol(config, ServerState(), {}), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def request(path: str, body: bytes = b"{}") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("path", ["/one-shot", "/stream"])
@pytest.mark.parametrize("is_one_packet", [True, False])
@pytest.mark.parametrize("behind", [[request("/b")], [request("/b"), request("/c")], [b"POST /b HT"]])
def test_a_client_that_leaves_is_noticed(path: str, is_one_packet: bool, behind: list[bytes]) -> None:
    async def main() -> None:
        app = Application()
        async with listening(app) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(path) + b"".join(behind if is_one_packet else []))
            await app.wait_until(lambda: app.read == [path])
            if not is_one_packet:
                writer.write(b"".join(behind))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            await app.wait_until(lambda: app.left == [path])
        # Nobody waits for the others' answers.
        assert app.read == [path]

    asyncio.run(main())
