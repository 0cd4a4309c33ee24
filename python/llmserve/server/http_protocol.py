"""HTTP/1 as ``llmserve serve`` speaks it: uvicorn's, without protocol upgrades.

It sees a client leave that has sent further requests, too.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_UNSENT_BYTES = 128 << 10
"""What the system takes of an answer beyond what is under way: a client that stops reading is felt soon."""

_MAX_PIPELINED = 16
"""With more requests behind the one that is being answered, a connection is not read further."""


class HttpProtocol(HttpToolsProtocol):
    """Ignores the wish for another protocol (RFC 9110, section 7.8).

    httptools ends a request that has one at its head, and takes its body for the next request.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cycles: list[RequestResponseCycle] = []
        """The requests of the connection that are not answered yet, oldest first."""
        self.parser = _Parser(self)
        # As uvicorn has it.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins a connection."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        # Windows has no such option, nor do sockets of other families.
        if sock is not None and (option := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells every request of the connection; uvicorn tells the last one."""
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Begins a request, unless the parser is to read its head again."""
        if self.parser.should_upgrade() and not self.is_tunnel:
            return
        super().on_headers_complete()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        self._cycles.append(self.cycle)
        # uvicorn stops reading at the second one, and would not see the connection's end.
        if len(self.pipeline) <= _MAX_PIPELINED:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        """Ends a request."""
        if not self.parser.should_upgrade() or self.is_tunnel:
            super().on_message_complete()

    @property
    def is_tunnel(self) -> bool:
        """Whether the request is a ``CONNECT``: what follows it is of no protocol that we know."""
        return self.parser.get_method() == b"CONNECT"

    def plain_head(self) -> bytes:
        """The head that was read, without ``Upgrade``."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(fields))


class _Parser(httptools.HttpRequestParser):
    """Reads a request that asks for another protocol again, without that wish."""

    def __init__(self, protocol: HttpProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        rest = memoryview(data)
        while True:
            try:
                super().feed_data(rest)
            except httptools.HttpParserUpgrade as stop:
                if self._protocol.is_tunnel:
                    raise
                rest = rest[stop.args[0] :]
                super().feed_data(self._protocol.plain_head())
            else:
                return
