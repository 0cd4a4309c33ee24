"""What is left of a request's body when it is answered."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from starlette.types import Message, Receive

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.web import uploads
from llmserve.server.web.uploads import Upload

LENGTH = (b"content-length", b"1000000")
CHUNKED = (b"transfer-encoding", b"chunked")


def scope(*headers: tuple[bytes, bytes], version: str = "1.1") -> dict[str, Any]:
    return {"type": "http", "http_version": version, "headers": list(headers)}


def pieces(*bodies: bytes, is_whole: bool) -> tuple[Receive, list[Message]]:
    """A ``receive`` that gives pieces of a body, and those that it has not given yet."""
    left: list[Message] = [
        {"type": "http.request", "body": body, "more_body": not (is_whole and index == len(bodies) - 1)}
        for index, body in enumerate(bodies)
    ]

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return receive, left


@pytest.mark.parametrize(
    ("headers", "version", "lingers"),
    [
        ([], "1.1", False),
        ([(b"content-length", b"0")], "1.1", False),
        ([(b"content-length", b"65536")], "1.1", False),
        ([(b"content-length", b"65537")], "1.1", True),
        ([LENGTH], "1.0", True),
        ([LENGTH], "2", False),
        ([CHUNKED], "1.1", True),
    ],
)
def test_which_answers_end_the_connection(
    headers: list[tuple[bytes, bytes]], version: str, lingers: bool
) -> None:
    receive, _ = pieces(is_whole=True)
    assert Upload(scope(*headers, version=version), receive, 10, Lifecycle()).must_linger is lingers


def test_a_body_that_has_arrived_leaves_the_connection_open() -> None:
    async def main() -> None:
        receive, left = pieces(b"a" * 70_000, b"b", is_whole=True)
        upload = Upload(scope(LENGTH), receive, 10, Lifecycle())
        lingers = []
        while left:
            await upload.receive()
            lingers.append(upload.must_linger)
        assert lingers == [True, False]

    asyncio.run(main())


def test_the_rest_is_dropped_up_to_its_end_or_the_limit() -> None:
    async def main() -> None:
        receive, left = pieces(*[b"a"] * 5, is_whole=True)
        await Upload(scope(LENGTH), receive, 100, Lifecycle()).discard()
        assert not left
        receive, left = pieces(*[b"a"] * 5, is_whole=True)
        await Upload(scope(LENGTH), receive, 2, Lifecycle()).discard()
        assert len(left) == 2

    asyncio.run(main())


def test_a_client_that_has_left_is_not_waited_for() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    asyncio.run(Upload(scope(LENGTH), gone, 10, Lifecycle()).discard())


def test_a_client_that_sends_no_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_LINGER_S", 0.01)
    receive, left = pieces(b"a", is_whole=False)
    asyncio.run(Upload(scope(LENGTH), receive, 10, Lifecycle()).discard())
    assert not left


def test_the_stop_waits_for_no_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_LINGER_S", math.inf)

    async def main() -> None:
        lifecycle = Lifecycle()
        receive, _ = pieces(is_whole=False)
        asyncio.get_running_loop().call_soon(lifecycle.stop)
        async with asyncio.timeout(60):
            await Upload(scope(LENGTH), receive, 10, lifecycle).discard()
            await Upload(scope(LENGTH), receive, 10, lifecycle).discard()

    asyncio.run(main())
