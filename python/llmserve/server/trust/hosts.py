"""The names by which requests may address the server: protection against DNS rebinding."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Scope

from llmserve.server.addresses import Authority, is_loopback_name
from llmserve.server.refusals import ForeignHostError, RepeatedHostError
from llmserve.server.trust.local import is_loopback
from llmserve.server.web.headers import header

ANY = "*"


def check_single(scope: Scope) -> None:
    """Checks that a request has one ``Host`` at most (RFC 9112, section 3.2).

    Raises:
        RepeatedHostError: It has several.
    """
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:
        raise RepeatedHostError


class HostRule:
    """Refuses requests whose ``Host`` is not one of the allowed names.

    Without names, a request that arrives on a loopback address must use a loopback name; others may use any
    name. Loopback names are always allowed: DNS gives them to nobody else. A client that sends no
    ``Host`` at all (HTTP/1.0) is not a browser and passes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.lower() for name in names]

    def __call__(self, scope: Scope) -> None:
        """Checks one request.

        Raises:
            ForeignHostError: The request's ``Host`` is not allowed.
        """
        text = header(scope, b"host")
        if text is None:
            return
        authority = Authority.parse(text)
        if authority is not None and is_loopback_name(authority.host):
            return
        if not self._names and not is_loopback(scope.get("server")):
            return
        if ANY not in self._names and (authority is None or not self.names(authority.host)):
            raise ForeignHostError

    def names(self, host: str) -> bool:
        """Whether the operator listed a host, itself or as one of ``*.its.domain``."""
        return any(host.endswith(name[1:]) if name.startswith("*.") else host == name for name in self._names)
