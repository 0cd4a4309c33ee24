"""Addresses and names as headers contain them, and which of them are this machine's own."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

# RFC 3986, section 3.2, without user information.
_AUTHORITY = re.compile(r"(?:\[([^][/?#@\s]+)\]|([^][:/?#@\s]+))(?::([0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class Authority:
    """Host and port of a ``Host`` header or an origin."""

    host: str
    """The host in lower case: an IPv6 address without its brackets, a name without its last dot."""
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Authority | None:
        """Reads ``host``, ``host:port`` or ``[address]:port``; ``None`` if the text is anything else."""
        match = _AUTHORITY.fullmatch(text)
        if match is None:
            return None
        address, name, port = match.groups()
        return cls((address or name).lower().removesuffix("."), int(port) if port else None)

    def with_port(self, default: int) -> Authority:
        """The address with a port, which is ``default`` if none was given."""
        return self if self.port is not None else Authority(self.host, default)


def is_loopback_address(host: str) -> bool:
    """Whether a literal IP address is a loopback address; IPv4 mapped into IPv6 counts."""
    try:
        address = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_loopback_name(host: str) -> bool:
    """Whether a host is this machine (RFC 6761, section 6.3)."""
    name = host.lower().removesuffix(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback_address(name)
