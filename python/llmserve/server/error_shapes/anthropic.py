"""Errors in Anthropic's shape: ``{"type": "error", "error": {"type", "message"}, "request_id"}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.web.errors import Dialect, Fault, RawHeaders
from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field
from llmserve.server.web.request_id import current_request_id

DIALECT = "anthropic"

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""By status; the other 4xx are `invalid_request_error`, the other 5xx `api_error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicErrorDetail:
    """What went wrong."""

    type: Annotated[str, Field("The kind.", example="invalid_request_error")]
    message: Annotated[str, Field("In words.", example="messages is required")]
    details: Annotated[
        Any,
        Field(
            "For programs, of the few errors that clients recover from by themselves.",
            kind=unchecked({"type": "object"}),
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicError:
    """Why a request was refused or failed."""

    type: Annotated[str, Field("Always `error`.", example="error")]
    error: Annotated[AnthropicErrorDetail, Field("The error.")]
    request_id: Annotated[str, Field("Also in the header `Request-ID`.")]


def render(fault: Fault) -> object:
    """The body of an error."""
    otherwise = "api_error" if fault.status >= 500 else "invalid_request_error"
    detail: dict[str, Any] = {"type": _TYPES.get(fault.status, otherwise), "message": _message(fault)}
    if isinstance(fault.error, refusals.ThreadsNotStoredError):
        detail["details"] = {"error_code": "thread_unsupported_request", "unsupported": []}
    return {"type": "error", "error": detail, "request_id": current_request_id()}


def _message(fault: Fault) -> str:
    error = fault.error
    if isinstance(error, errors.ContextExceededError) and not isinstance(error, errors.DocumentTooLongError):
        # Agents cut their history short when they find these words. Output takes one token at least.
        return f"prompt is too long: {error.shown_tokens} tokens > {error.context_length - 1} maximum"
    return fault.message


def answer_headers() -> RawHeaders:
    """What every answer has."""
    return [(b"request-id", current_request_id().encode())]


ANTHROPIC = Dialect(
    DIALECT,
    render,
    AnthropicError,
    root="/v1/messages",
    answer_headers=answer_headers,
    header_names=("Request-ID",),
)
