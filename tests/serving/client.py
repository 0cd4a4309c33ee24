"""A small HTTP/1.1 client: whole answers, and streams read as their bytes come."""

from __future__ import annotations

import errno
import http.client
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

TIMEOUT_S = 120


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    def header(self, name: str) -> str | None:
        return self.headers.get(name.lower())


def _request(port: int, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, answered, response.read())
    finally:
        connection.close()


def get(port: int, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    return _request(port, method, path, None, headers or {})


def post(
    port: int, path: str, body: object, *, method: str = "POST", headers: Mapping[str, str] | None = None
) -> Answer:
    """Posts JSON, or bytes as they are."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _request(port, method, path, raw, headers or {})


class RawStream:
    """A POST whose answer is read line by line; leaving the context closes the socket at once."""

    def __init__(
        self,
        port: int,
        path: str,
        body: object,
        *,
        receive_buffer: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        raw = json.dumps(body).encode()
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.connect(("127.0.0.1", port))
        fields = {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(raw)), **(headers or {})}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self._socket.sendall("\r\n".join(lines).encode() + raw)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> RawStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves."""
        self._file.close()
        self._socket.close()

    def wait_until_reset(self) -> None:
        """Waits for the server to cut the connection off, without reading what it has sent."""
        wait_until_reset(self._socket)

    def read_head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, as soon as they are there."""
        status = int(self._file.readline().split()[1])
        headers: dict[str, str] = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def lines(self) -> Iterator[str]:
        """The lines of a chunked body up to its end; empty ones are left out."""
        rest = b""
        while (size := int(self._file.readline(), 16)) > 0:
            rest += self._file.read(size)
            self._file.readline()
            *whole, rest = rest.split(b"\n")
            yield from (line.decode() for line in whole if line)

    def read_to_close(self) -> bytes:
        return self._file.read()


def wait_until_reset(sock: socket.socket) -> None:
    """Waits for the server to cut a connection off, without reading what it has sent."""
    events = select.poll()
    events.register(sock, select.POLLERR)
    assert events.poll(TIMEOUT_S * 1000), "the connection still stands"
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET


def events(body: str) -> list[str]:
    """The lines of a stream's body without empty ones and comments."""
    return [line for line in body.split("\n") if line and not line.startswith(":")]


def read_metrics(port: int) -> dict[str, float]:
    """Samples by their name with labels."""
    lines = get(port, "/metrics").text.splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def wait_until(is_so: Callable[[], object]) -> None:
    """Asks again and again; the question itself is a request and paces it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, "this never came true"
        time.sleep(0.01)
