"""Which requests come from a program on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.addresses import is_loopback_address

_FORWARDED = (b"forwarded", b"via", b"x-real-ip")
_FORWARDED_PREFIX = b"x-forwarded-"


def is_local(scope: Mapping[str, Any]) -> bool:
    """Whether both ends of an ASGI scope are on this machine, and no proxy has passed the request on."""
    if _is_forwarded(scope):
        return False
    server, client = scope.get("server"), scope.get("client")
    if is_unix_socket(server):
        # uvicorn knows no client of such a socket.
        return client is None or is_unix_socket(client)
    return is_loopback(server) and is_loopback(client)


def is_loopback(end: tuple[str, int | None] | None) -> bool:
    """Whether an end of a connection (ASGI's ``server`` or ``client``) is a loopback address."""
    return end is not None and end[1] is not None and is_loopback_address(end[0])


def is_unix_socket(end: tuple[str, int | None] | None) -> bool:
    """Whether an end of a connection is a UNIX socket, which ASGI gives without a port."""
    return end is not None and end[1] is None


def _is_forwarded(scope: Mapping[str, Any]) -> bool:
    return any(
        name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name, _ in scope.get("headers", ())
    )
