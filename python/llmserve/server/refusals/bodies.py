"""Bodies that cannot be read."""

from __future__ import annotations

from llmserve.server.refusals.base import Refusal


class MalformedBodyError(Refusal):
    """The body is not something the route can read, such as invalid JSON."""

    code = "malformed_body"


class BodyTooLargeError(Refusal):
    """The body exceeds the limit, which is in bytes."""

    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body exceeds the limit of {limit} bytes")
        self.limit = limit


class BodyTimeoutError(Refusal):
    """The body did not arrive in time."""

    code = "body_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the body did not arrive within {seconds:g} s")
        self.seconds = seconds


class BodiesFullError(Refusal):
    """All request bodies that are being read would together exceed the limit, which is in bytes."""

    code = "bodies_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request bodies that are being read would exceed {limit} bytes in total")
        self.limit = limit
