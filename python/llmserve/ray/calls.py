"""A request on its way to a replica, and its answer on the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope

from llmserve.routing import RoutingKey, key_of

_CARRIED = (
    "type",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "query_string",
    "root_path",
    "headers",
    "client",
    "server",
)
"""What of an ASGI scope is plain data and concerns the application."""


@dataclass(frozen=True, slots=True)
class Call:
    """A whole request. Routers read its key."""

    scope: dict[str, Any]
    body: bytes
    key: RoutingKey


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of an answer; what follows are the bytes of its body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]


class ClientLeftError(Exception):
    """The client left before its request was complete."""


async def read_call(scope: Scope, receive: Receive, max_body_bytes: int) -> Call:
    """The request of a connection. A body over the limit is cut: the replica refuses it by its size.

    Raises:
        ClientLeftError: The client left.
    """
    parts: list[bytes] = []
    left = max_body_bytes + 1
    while left > 0:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeftError
        part = message.get("body", b"")[:left]
        parts.append(part)
        left -= len(part)
        if not message.get("more_body", False):
            break
    body = b"".join(parts)
    carried = {name: scope[name] for name in _CARRIED if name in scope}
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Call(carried, body, key_of(scope["path"], headers, body))
