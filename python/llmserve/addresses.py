"""Which addresses and names are this machine's own."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any


def is_local_server(scope: Mapping[str, Any]) -> bool:
    """Whether a request came in on a loopback address or a UNIX socket (ASGI's ``server``)."""
    server = scope.get("server")
    if server is None:
        return False
    host, port = server
    return port is None or is_loopback_address(host)


def is_loopback_server(scope: Mapping[str, Any]) -> bool:
    """Whether a request came in on a loopback address, where browsers can reach it."""
    server = scope.get("server")
    return server is not None and server[1] is not None and is_loopback_address(server[0])


def is_loopback_address(host: str) -> bool:
    """Whether a literal IP address is a loopback address; IPv4 mapped into IPv6 counts."""
    try:
        address = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_loopback_name(host: str) -> bool:
    """Whether the host part of a ``Host`` header names this machine (RFC 6761, section 6.3)."""
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback_address(name)


def host_of(header: str) -> str:
    """The host of ``host:port``; brackets of an IPv6 address are taken off."""
    if header.startswith("["):
        return header[1:].split("]", 1)[0]
    return header.rsplit(":", 1)[0] if header.count(":") == 1 else header
