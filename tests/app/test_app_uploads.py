"""Uploads that are refused before they have arrived: the client gets the answer, and the connection ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import ServerProcess, serve

KEY = "secret"
MAX_BODY_BYTES = 1 << 20
PIECE = b" " * (64 << 10)


@pytest.fixture(scope="module")
def locked(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for a key."""
    env = {"LLMSERVE_MAX_BODY_BYTES": str(MAX_BODY_BYTES), "LLMSERVE_API_KEY": KEY}
    with serve(tmp_path_factory.mktemp("server"), tiny_model, env=env) as server:
        server.wait_until_ready()
        yield server


def head(*fields: str, path: str = "/completions") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "", ""]).encode()


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=120)


def read_answer(sock: socket.socket) -> tuple[int, bool]:
    """The status of one whole answer, and whether it says that the connection ends."""
    data = b""
    while b"\r\n\r\n" not in data:
        received = sock.recv(65536)
        assert received, data
        data += received
    raw_head, _, body = data.partition(b"\r\n\r\n")
    lines = raw_head.decode().lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    while len(body) < int(fields["content-length"]):
        received = sock.recv(65536)
        assert received, data
        body += received
    return int(lines[0].split()[1]), fields.get("connection") == "close"


REFUSED = [
    pytest.param(["X-API-Key: wrong"], 401, id="gate-401"),
    pytest.param([f"X-API-Key: {KEY}", "Origin: http://evil.example"], 403, id="gate-403"),
    pytest.param([f"X-API-Key: {KEY}"], 413, id="body-413"),
]


@pytest.mark.parametrize(("fields", "status"), REFUSED)
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_client_that_sends_all_before_it_reads_gets_the_answer(
    locked: ServerProcess, fields: list[str], status: int, framing: str
) -> None:
    """As most clients do: they read once their whole body has been sent."""
    body = PIECE * (MAX_BODY_BYTES // len(PIECE) + 4)
    with connect(locked) as sock:
        if framing == "length":
            sock.sendall(head(*fields, f"Content-Length: {len(body)}") + body)
        else:
            sock.sendall(head(*fields, "Transfer-Encoding: chunked"))
            sock.sendall(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
        assert read_answer(sock) == (status, True)
        assert sock.recv(1) == b""


@pytest.mark.parametrize(("fields", "status"), REFUSED)
def test_the_answer_comes_before_the_body_has(locked: ServerProcess, fields: list[str], status: int) -> None:
    with connect(locked) as sock:
        sock.sendall(head(*fields, f"Content-Length: {2 * 10**9}"))
        assert read_answer(sock) == (status, True)


@pytest.mark.parametrize(("fields", "status"), REFUSED)
def test_nobody_goes_on_uploading_what_is_not_read(
    locked: ServerProcess, fields: list[str], status: int
) -> None:
    with connect(locked) as sock:
        sock.sendall(head(*fields, f"Content-Length: {2 * 10**9}"))
        assert read_answer(sock)[0] == status
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range((200 << 20) // len(PIECE)):
                sock.sendall(PIECE)


def test_a_client_that_waits_to_be_told_to_go_on_is_not(locked: ServerProcess) -> None:
    with connect(locked) as sock:
        sock.sendall(head("X-API-Key: wrong", f"Content-Length: {MAX_BODY_BYTES}", "Expect: 100-continue"))
        assert read_answer(sock) == (401, True)


def test_the_connection_of_a_small_body_goes_on(locked: ServerProcess) -> None:
    with connect(locked) as sock:
        for key, status in (("wrong", 401), (KEY, 400), ("wrong", 401)):
            sock.sendall(head(f"X-API-Key: {key}", "Content-Length: 2") + b"{}")
            assert read_answer(sock) == (status, False)
