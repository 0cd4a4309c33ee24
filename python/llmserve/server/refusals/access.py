"""Requests of those whom the server does not trust."""

from __future__ import annotations

from llmserve.server.refusals.base import Refusal


class UnauthorizedError(Refusal):
    """The server requires an API key, and the request has none or a wrong one."""

    code = "unauthorized"

    def __init__(self, *, was_given: bool) -> None:
        super().__init__(
            f"{'the API key is wrong' if was_given else 'an API key is required'}: send it as "
            "'Authorization: Bearer KEY' or 'X-API-Key: KEY'"
        )
        self.was_given = was_given


class ForeignHostError(Refusal):
    """The request addresses the server by a name that is not allowed (DNS rebinding)."""

    code = "foreign_host"

    def __init__(self) -> None:
        super().__init__(
            "the Host header is not allowed: it must be a loopback name, such as localhost, or one of the "
            "names that LLMSERVE_ALLOWED_HOSTS lists"
        )


class RepeatedHostError(Refusal):
    """The request has several ``Host`` headers, of which others may read another one (RFC 9112, 3.2)."""

    code = "repeated_host"

    def __init__(self) -> None:
        super().__init__("the request must have one Host header")


class ForeignOriginError(Refusal):
    """A browser sent the request for a page of another site."""

    code = "foreign_origin"

    def __init__(self, *, has_origin: bool) -> None:
        super().__init__(
            "the Origin is not allowed: LLMSERVE_CORS_ORIGINS lists the sites whose pages may call this "
            "server, and LLMSERVE_ALLOWED_HOSTS lists the server's own names"
            if has_origin
            else "Sec-Fetch-Site is cross-site, and there is no Origin: pages of other sites may only link "
            "to this server's pages"
        )
