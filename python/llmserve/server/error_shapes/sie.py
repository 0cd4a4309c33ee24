"""Errors in SIE's shape: ``{"error": {"code", "message", "param"}}`` and ``X-SIE-Error-Code``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from llmserve import __version__, errors
from llmserve.server import refusals
from llmserve.server.web.errors import Dialect, Fault, RawHeaders
from llmserve.server.web.fields import Field
from llmserve.server.web.request_id import current_request_id

DIALECT = "sie"

# Not a bare number: the client compares such a one with its own version and warns.
_VERSION = f"llmserve-{__version__}".encode()

_CODES: Mapping[type[BaseException], str] = MappingProxyType(
    {
        refusals.UnsupportedFieldError: "unsupported_field",
        refusals.FieldTooLongError: "INPUT_TOO_LONG",
        refusals.BodyTooLargeError: "INPUT_TOO_LONG",
        refusals.UnsafeModelIdError: "MODEL_NOT_FOUND",
        refusals.UnknownModelError: "MODEL_NOT_FOUND",
        refusals.ModelLoadingError: "MODEL_LOADING",
        errors.LoadError: "MODEL_LOAD_FAILED",
        errors.ContextExceededError: "context_exceeded",
        errors.QueueFullError: "QUEUE_FULL",
        refusals.SessionsFullError: "QUEUE_FULL",
        refusals.BodiesFullError: "QUEUE_FULL",
        # The client retries after `Retry-After`, perhaps at another instance: nothing has begun here.
        refusals.ServerDrainingError: "QUEUE_FULL",
        refusals.ServerStoppingError: "generation_cancelled",
        refusals.GenerationCancelledError: "generation_cancelled",
        errors.EngineClosedError: "generation_cancelled",
        refusals.UnauthorizedError: "unauthorized",
        refusals.NotSupportedError: "not_supported",
        refusals.SessionExpiredError: "session_expired",
    }
)


_TIMEOUTS: Mapping[str, str] = MappingProxyType(
    {
        "options.first_chunk_timeout_s": "first_chunk_timeout",
        "options.overall_timeout_s": "overall_timeout",
    }
)
"""Codes of time limits, by the fields that set them; others are a `timeout`."""

_LOAD_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "not_found": "NOT_FOUND",
        "not_enough_memory": "OOM",
        "invalid_option": "CONFIG",
        "wrong_kind": "CONFIG",
        "not_readable": "STORAGE",
        "truncated": "STORAGE",
        "missing_part": "STORAGE",
        "cancelled": "UNKNOWN",
    }
)
"""SIE's classes of failed loads, by `LoadError.reason`; all others are an `ENGINE`'s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateFault:
    """What went wrong."""

    code: Annotated[
        str, Field("A stable name; also in the header `X-SIE-Error-Code`.", example="invalid_request")
    ]
    message: Annotated[str, Field("For people.", example="max_new_tokens is required")]
    param: Annotated[str | None, Field("The field, where it is one.", example="max_new_tokens")] = None
    error_class: Annotated[
        str | None, Field("Of a load that failed: its class, such as `OOM`, `NOT_FOUND` or `CONFIG`.")
    ] = None
    permanent: Annotated[
        bool | None, Field("Of a load that failed: false, since a request some seconds later tries again.")
    ] = None
    attempts: Annotated[int | None, Field("Of a load that failed: how often it was tried.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateError:
    """The body of an error."""

    error: Annotated[GenerateFault, Field("What went wrong.")]


def code_of(fault: Fault) -> str:
    """The code that SIE's clients know."""
    if isinstance(fault.error, refusals.GenerationTimeoutError):
        return _TIMEOUTS.get(fault.error.field, "timeout")
    for cls in type(fault.error).__mro__:
        if code := _CODES.get(cls):
            return code
    return "invalid_request" if fault.status < 500 else "inference_error"


def param_of(error: BaseException) -> str | None:
    """The field that an error is about, by its name on this wire."""
    if isinstance(error, refusals.FieldError | errors.InvalidParameterError):
        return error.field
    if isinstance(error, errors.BudgetTooSmallError | errors.EmptyPromptError):
        return error.field
    if isinstance(error, refusals.UnknownModelError | refusals.UnsafeModelIdError | refusals.ModelKindError):
        return "model"
    if isinstance(error, errors.ContextExceededError):
        return "prompt" if error.prompt_tokens >= error.context_length else "max_new_tokens"
    return error.field if isinstance(error, refusals.GenerationTimeoutError) else None


def render(fault: Fault) -> object:
    """The body of an error."""
    error: dict[str, object] = {
        "code": code_of(fault),
        "message": fault.message,
        "param": param_of(fault.error),
    }
    if isinstance(fault.error, errors.LoadError):
        error |= load_failure(fault.error)
    return {"error": error}


def load_failure(error: errors.LoadError) -> dict[str, object]:
    """What SIE's clients learn of a load that failed, beside its code and message."""
    # A request some seconds later tries again.
    return {
        "error_class": _LOAD_CLASSES.get(error.reason, "ENGINE"),
        "attempts": 1,
        "permanent": False,
    }


def fault_headers(fault: Fault) -> RawHeaders:
    """The code, for clients that do not read the body."""
    return [(b"x-sie-error-code", code_of(fault).encode())]


def answer_headers() -> RawHeaders:
    """What every answer has."""
    return [
        (b"x-sie-request-id", current_request_id().encode()),
        (b"x-sie-server-version", _VERSION),
        (b"x-sie-served-by", b"local"),
    ]


SIE = Dialect(
    DIALECT,
    render,
    GenerateError,
    root="/v1/generate",
    fault_headers=fault_headers,
    answer_headers=answer_headers,
    header_names=("X-SIE-Error-Code", "X-SIE-Request-ID", "X-SIE-Server-Version", "X-SIE-Served-By"),
)
