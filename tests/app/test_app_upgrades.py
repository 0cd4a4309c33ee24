"""A request that asks for another protocol is served as if it did not (RFC 9110, section 7.8)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from serving import Server, serve_in_process, serve_with_uvicorn

pytestmark = pytest.mark.model

KEY = "k1"
BODY = b'{"model": "none", "prompt": "a"}'
HIDDEN = f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\n\r\n".encode()
UPGRADES = [
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    "Connection: upgrade\r\nUpgrade: x",
    "Connection: Upgrade\r\nUpgrade: websocket",
]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_in_process(tmp_path_factory.mktemp("locked"), env={"LLMSERVE_API_KEY": KEY}) as server:
        yield server


def request(body: bytes, *fields: str, method: str = "POST", key: str | None = KEY) -> bytes:
    keys = [] if key is None else [f"X-API-Key: {key}"]
    lines = [f"{method} /v1/completions HTTP/1.1", "Host: localhost", *keys, *fields]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def statuses(port: int, *packets: bytes, awaits_first: bool = False) -> list[int]:
    """The statuses of all answers on one connection, which the last request asks to close.

    What follows the first packet is sent after its answer if ``awaits_first``.
    """
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        with suppress(ConnectionError):  # the server has closed it
            for packet in [*packets, last]:
                sock.sendall(packet)
                if awaits_first and not received:
                    received = sock.recv(65536)
            while piece := sock.recv(65536):
                received += piece
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received)]


@pytest.mark.parametrize("fields", UPGRADES)
@pytest.mark.parametrize("packet_bytes", [1, 10_000])
def test_the_body_is_that_of_the_request(locked: Server, fields: str, packet_bytes: int) -> None:
    raw = request(BODY, fields)
    packets = [raw[start : start + packet_bytes] for start in range(0, len(raw), packet_bytes)]
    # 404: the body was read, and names a model that does not exist.
    assert statuses(locked.port, *packets) == [404, 200]


def test_a_chunked_body_too(locked: Server) -> None:
    head = request(b"", UPGRADES[0], "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    assert statuses(locked.port, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)) == [404, 200]


@pytest.mark.parametrize("fields", UPGRADES)
def test_a_body_is_not_taken_for_a_request(locked: Server, fields: str) -> None:
    refused = request(HIDDEN, fields, key=None)
    head = refused.removesuffix(HIDDEN)
    assert statuses(locked.port, refused) == [401, 200]
    assert statuses(locked.port, head, HIDDEN, awaits_first=True) == [401, 200]


def test_requests_in_one_packet_are_all_answered(locked: Server) -> None:
    assert statuses(locked.port, request(BODY, UPGRADES[1]) * 100) == [404] * 100 + [200]


def test_nothing_after_a_request_for_a_tunnel_is_served(locked: Server) -> None:
    head = b"CONNECT /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert statuses(locked.port, head, HIDDEN, awaits_first=True) == [401]


@pytest.mark.parametrize("protocol", ["httptools", "h11"])
def test_under_uvicorn_nothing_after_such_a_request_is_served(tmp_path: Path, protocol: str) -> None:
    with serve_with_uvicorn(tmp_path, "--http", protocol, env={"LLMSERVE_API_KEY": KEY}) as server:
        server.wait_until_listening()
        for fields in UPGRADES:
            head = request(HIDDEN, fields, key=None).removesuffix(HIDDEN)
            assert statuses(server.port, head, HIDDEN, awaits_first=True) == [401]
        server.wait_for_log("Unsupported upgrade request.")
        assert server.log.count("Unsupported upgrade request.") == 1
