"""Requests that no route takes, or that the server takes no more."""

from __future__ import annotations

from llmserve.server.refusals.base import Refusal


class RouteNotFoundError(Refusal):
    """There is no such route."""

    code = "route_not_found"

    def __init__(self) -> None:
        super().__init__("no such route")


class MethodNotAllowedError(Refusal):
    """The route exists, but not for this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"method {method[:16]} is not allowed here, only {', '.join(allowed)}")
        self.allowed = allowed


class NotSupportedError(Refusal):
    """The request needs a feature that other servers have and this one does not."""

    code = "not_supported"

    def __init__(self, reason: str) -> None:
        super().__init__(f"not supported: {reason}")


class ServerDrainingError(Refusal):
    """A new request arrived while the server finishes the running ones."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__("the server is draining and accepts no new requests")


class ServerStoppingError(Refusal):
    """The stopping server cancelled a running request."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("the request was cancelled: the server is stopping")
