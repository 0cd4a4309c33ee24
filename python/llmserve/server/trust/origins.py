"""Which web pages may call the server."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import Scope

from llmserve.server.addresses import Authority, is_loopback_name
from llmserve.server.refusals import ForeignOriginError
from llmserve.server.trust.hosts import HostRule
from llmserve.server.web.headers import header

_DEFAULT_PORTS = {"http": 80, "https": 443}

LOCALHOST = "localhost"
"""Stands for all origins of this machine."""


def is_local_origin(origin: str) -> bool:
    """Whether a page comes from a server on this machine, whatever its port."""
    scheme, _, rest = origin.lower().partition("://")
    page = Authority.parse(rest)
    return scheme in _DEFAULT_PORTS and page is not None and is_loopback_name(page.host)


class OriginRule:
    """Refuses requests that browsers send for pages of other sites, unless CORS allows their origin.

    The server's own pages are those under the request's ``Host``, and those under names that the operator
    listed: a proxy may change ``Host``. A loopback name is shared by all programs of the machine, so there
    the port counts, too.
    """

    def __init__(self, allowed_origins: Collection[str], hosts: HostRule) -> None:
        self._allowed = allowed_origins
        self._hosts = hosts

    def __call__(self, scope: Scope, *, may_be_linked: bool = False) -> None:
        """Checks one request; other sites may link to anything that changes nothing.

        Raises:
            ForeignOriginError: The request was sent for a page of another site.
        """
        if "*" in self._allowed:
            return
        origin = header(scope, b"origin")
        if origin is None:
            # Browsers send no Origin with a GET for an image, a script or a link.
            is_foreign = header(scope, b"sec-fetch-site") == "cross-site"
            is_foreign = is_foreign and not (may_be_linked and _follows_a_link(scope))
        else:
            is_foreign = not self._is_allowed(origin) and not self._is_own(origin, header(scope, b"host"))
        if is_foreign:
            raise ForeignOriginError(has_origin=origin is not None)

    def _is_allowed(self, origin: str) -> bool:
        return origin in self._allowed or (LOCALHOST in self._allowed and is_local_origin(origin))

    def _is_own(self, origin: str, host: str | None) -> bool:
        scheme, _, rest = origin.lower().partition("://")
        page = Authority.parse(rest)
        if scheme not in _DEFAULT_PORTS or page is None:
            return False
        own = Authority.parse(host or "")
        port = _DEFAULT_PORTS[scheme]
        if own is not None and page.with_port(port) == own.with_port(port):
            return True
        return self._hosts.names(page.host) and not is_loopback_name(page.host)


def _follows_a_link(scope: Scope) -> bool:
    """Whether a browser opens a page for its user, which the other site cannot read."""
    return (
        scope["method"] == "GET"
        and header(scope, b"sec-fetch-mode") == "navigate"
        and header(scope, b"sec-fetch-dest") == "document"
    )
