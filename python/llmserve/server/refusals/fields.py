"""Fields that are wrong."""

from __future__ import annotations

from llmserve.server.refusals.base import MAX_SHOWN_ID, Refusal


class FieldError(Refusal):
    """A field of the body is missing, has the wrong type or is out of range.

    `limit` is the bound that its value, length or number of items exceeds, `None` if it exceeds none.
    """

    code = "invalid_field"

    def __init__(self, field: str, reason: str, *, limit: float | None = None) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason
        self.limit = limit


class UnsupportedFieldError(FieldError):
    """The dialect does not have this field, or not in this place."""

    code = "unsupported_field"


class FieldTooLongError(FieldError):
    """A text exceeds its limit, which is in bytes of UTF-8."""

    code = "field_too_long"

    def __init__(self, field: str, limit: int) -> None:
        super().__init__(field, f"must be at most {limit} bytes of UTF-8", limit=limit)


class ThreadsNotStoredError(FieldError):
    """A request begins or continues a thread of Anthropic's API, which the server does not store."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "is not supported, because threads are not stored: send all messages")


class UnknownPreviousResponseError(FieldError):
    """The response that a request is to continue is not stored. The words are OpenAI's."""

    code = "previous_response_not_found"

    def __init__(self, field: str, response_id: str) -> None:
        super().__init__(field, "is unknown")
        self.args = (f"Previous response with id '{response_id[:MAX_SHOWN_ID]}' not found.",)
