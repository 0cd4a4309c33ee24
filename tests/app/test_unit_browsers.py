from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from llmserve.http.browsers import BrowserMiddleware
from llmserve.refusals import ForeignOriginError


def passes(origin: bytes, host: bytes = b"localhost:8082", *allowed: str) -> bool:
    is_served = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal is_served
        is_served = True

    async def nothing() -> Message:
        raise AssertionError

    async def no_send(message: Message) -> None:
        raise AssertionError

    headers = [(b"host", host), (b"origin", origin)]
    scope: dict[str, Any] = {"type": "http", "server": ("127.0.0.1", 8082), "headers": headers}
    try:
        asyncio.run(BrowserMiddleware(app, allowed)(scope, nothing, no_send))
    except ForeignOriginError:
        assert not is_served
        return False
    assert is_served
    return True


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (b"http://localhost:8082", b"localhost:8082"),
        (b"https://localhost:8082", b"localhost:8082"),
        (b"HTTP://LocalHost:8082", b"LOCALHOST:8082"),
        (b"http://[::1]:8082", b"[::1]:8082"),
        (b"http://localhost", b"localhost"),
    ],
)
def test_the_servers_own_origin_passes(origin: bytes, host: bytes) -> None:
    assert passes(origin, host)


@pytest.mark.parametrize(
    "origin",
    [
        b"http://[x",
        b"http://[::1",
        b"http://localhost:8082/path",
        b"http://localhost:8082@evil.example",
        b"ftp://localhost:8082",
        b"//localhost:8082",
        b"localhost:8082",
        b"null",
        b"",
        b"\xff\xfe",
    ],
)
def test_every_other_origin_is_refused_however_broken(origin: bytes) -> None:
    assert not passes(origin)


def test_allowed_origins_pass() -> None:
    assert passes(b"https://a.example", b"localhost", "https://a.example")
    assert passes(b"http://[x", b"localhost", "*")
    assert not passes(b"https://b.example", b"localhost", "https://a.example")
