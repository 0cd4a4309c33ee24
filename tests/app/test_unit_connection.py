from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmserve.server.refusals import BodyTooLargeError
from llmserve.server.web.answer import Answer
from llmserve.server.web.disconnect import Connections

OK: Message = {"type": "http.response.body", "body": b"ok", "more_body": False}


def post_scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}


class Peer:
    """The server's side of one connection."""

    def __init__(self, *messages: Message) -> None:
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.incoming.put_nowait(message)
        self.sent: list[Message] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def chunk(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def serve(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, connections: Connections | None = None
) -> None:
    answer = Answer(send)
    async with (connections or Connections(100)).watched(scope, receive, answer) as watched:
        await app(scope, watched, answer.send)


def test_a_disconnect_cancels_the_work_wherever_it_waits() -> None:
    was_cancelled = False

    async def main() -> None:
        peer = Peer(chunk(b"{}"))
        has_read = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal was_cancelled
            await Request(scope, receive).body()
            has_read.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cancelled = True
                raise

        serving = asyncio.create_task(serve(app, post_scope(), peer.incoming.get, peer.send))
        await has_read.wait()
        peer.incoming.put_nowait({"type": "http.disconnect"})
        with pytest.raises(ClientDisconnect):
            await serving

    asyncio.run(main())
    assert was_cancelled


def test_the_disconnect_that_follows_a_complete_answer_cancels_nothing() -> None:
    has_cleaned_up = False

    async def main() -> None:
        peer = Peer(chunk(b"{}"))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal has_cleaned_up
            await Request(scope, receive).body()
            await send(OK)
            peer.incoming.put_nowait({"type": "http.disconnect"})
            for _ in range(10):
                await asyncio.sleep(0)
            has_cleaned_up = True

        await serve(app, post_scope(), peer.incoming.get, peer.send)
        assert peer.sent == [OK]

    asyncio.run(main())
    assert has_cleaned_up


def test_a_receive_that_gives_the_body_for_ever_is_asked_once_more_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    num_asked = 0

    async def receive() -> Message:  # as of a middleware that read the body itself
        nonlocal num_asked
        num_asked += 1
        if num_asked > 100:
            await asyncio.Event().wait()
        return chunk(b"{}")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await Request(scope, receive).body() == b"{}"
        for _ in range(10):
            await asyncio.sleep(0)
        await send(OK)

    async def main() -> None:
        connections, peer = Connections(100), Peer()
        for _ in range(2):
            await serve(app, post_scope(), receive, peer.send, connections)
        assert peer.sent == [OK, OK]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert num_asked == 4
    assert [record.name for record in caplog.records] == ["llmserve.server.web.disconnect"]


def test_faults_of_the_work_come_through() -> None:
    async def main() -> None:
        peer = Peer(chunk(b"{}"))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await Request(scope, receive).body()
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await serve(app, post_scope(), peer.incoming.get, peer.send)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("scope", "messages", "num_taken"),
    [
        (post_scope((b"content-length", b"101")), [chunk(b"x" * 101)], 0),
        (post_scope(), [chunk(b"x" * 60, more=True), chunk(b"x" * 41, more=True), chunk(b"x")], 2),
    ],
)
def test_bodies_over_the_limit_are_refused_early(
    scope: dict[str, Any], messages: list[Message], num_taken: int
) -> None:
    async def main() -> None:
        peer = Peer(*messages)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await Request(scope, receive).body()

        with pytest.raises(BodyTooLargeError, match="limit of 100 bytes"):
            await serve(app, scope, peer.incoming.get, peer.send)
        assert len(messages) - peer.incoming.qsize() == num_taken

    asyncio.run(main())


def test_a_body_of_exactly_the_limit_passes() -> None:
    async def main() -> None:
        peer = Peer(chunk(b"x" * 60, more=True), chunk(b"x" * 40))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            assert len(await Request(scope, receive).body()) == 100
            await send(OK)

        await serve(app, post_scope((b"content-length", b"100")), peer.incoming.get, peer.send)
        assert peer.sent == [OK]

    asyncio.run(main())
