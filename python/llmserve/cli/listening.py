"""Takes the server's address before a model is loaded: one that is in use is said at once.

Nobody can connect until the server listens.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from llmserve.cli.errors import CommandError
from llmserve.server.settings import Settings


def take_address(settings: Settings) -> list[socket.socket]:
    """Sockets with the settings' addresses; none for a UNIX socket, which is only checked.

    Raises:
        CommandError: The address is not available.
    """
    if settings.uds is not None:
        _check_unix_socket(settings.uds)
        return []
    sockets: list[socket.socket] = []
    try:
        for host in settings.hosts:
            # All addresses have one port.
            port = sockets[0].getsockname()[1] if sockets else settings.port
            _take(host, port, sockets)
    except CommandError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _take(host: str, port: int, sockets: list[socket.socket]) -> None:
    """Adds a socket for each address of a host."""
    try:
        # As text, an address would be encoded by a codec that takes a while to import.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise CommandError(
            f"the host {host!r} is unknown", "give --host an address of this machine"
        ) from None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            if port == 0 and len(sockets) > 1:
                # Those of a name, too.
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            _bind(sock, address)
    except OSError as error:
        raise _failure(error, host, port) from None


def _bind(sock: socket.socket, address: tuple[object, ...]) -> None:
    if os.name == "posix":
        # Connections of a server that has ended may still be closing.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(address)


def _failure(error: OSError, host: str, port: int) -> CommandError:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return CommandError(
            f"{shown} is in use by another program", "choose another port with --port; 0 picks a free one"
        )
    if error.errno == errno.EACCES:
        return CommandError(
            f"no permission to listen on {shown}", "ports below 1024 are for root: choose another with --port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return CommandError(
            f"{host} is not an address of this machine", "0.0.0.0 listens on all of them: --host 0.0.0.0"
        )
    return CommandError(f"cannot listen on {shown}: {error.strerror or error}")


def _check_unix_socket(path: Path) -> None:
    if not path.parent.is_dir():
        raise CommandError(f"cannot listen on {path}: there is no folder {path.parent}")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise CommandError(f"cannot listen on {path}: a file has this name", "choose another with --uds")
    with socket.socket(socket.AF_UNIX) as sock:
        # A server that was killed leaves its socket behind.
        if sock.connect_ex(str(path)) == 0:
            raise CommandError(f"{path} is in use by another program", "choose another with --uds")
