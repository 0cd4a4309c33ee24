"""Cuts off the connections of clients that have stopped reading."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any

from starlette.types import Send

# Lingering on, for 0 seconds: the connection is reset.
_AT_ONCE = struct.pack("ii", 1, 0)


def cut_off(send: Send) -> None:
    """Aborts the connection of a client that has stalled; takes the server's own `send`.

    ASGI has no message for that. Servers close a connection whose answer is incomplete, but only once the
    client has taken what was sent, which this one never does.
    """
    # uvicorn's `send` is a method of the object that has the transport; other servers are left alone.
    cycle: Any = getattr(send, "__self__", None)
    transport = getattr(cycle, "transport", None)
    if transport is None:
        return
    _abort(transport)
    # Otherwise uvicorn reports the incomplete answer as a fault. It sets this itself once it notices the end,
    # but only for the last request that the client has sent, and only later.
    cycle.disconnected = True


def _abort(transport: Any) -> None:
    if (sock := transport.get_extra_info("socket")) is not None:
        with suppress(OSError):  # the connection is closed already
            # Otherwise the kernel keeps what was sent and goes on offering it to the client.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
