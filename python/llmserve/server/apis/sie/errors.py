"""Errors of the SIE dialect: ``{"error": {"code", "message", "param"}}`` and ``X-SIE-Error-Code``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llmserve import errors
from llmserve.server import refusals
from llmserve.server.apis.sie.headers import answer_headers
from llmserve.server.web.errors import Dialect, Fault, RawHeaders

DIALECT = "sie"

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
        # The client comes back after `Retry-After`, perhaps to the next instance: nothing has begun here.
        refusals.ServerDrainingError: "QUEUE_FULL",
        refusals.ServerStoppingError: "generation_cancelled",
        refusals.GenerationCancelledError: "generation_cancelled",
        errors.EngineClosedError: "generation_cancelled",
        refusals.GenerationTimeoutError: "timeout",
        refusals.UnauthorizedError: "unauthorized",
        refusals.NotSupportedError: "not_supported",
        refusals.SessionExpiredError: "session_expired",
    }
)

# Names of the engine's fields that differ on this wire.
_WIRE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "max_tokens": "max_new_tokens",
        "min_tokens": "options.default_sampling.min_new_tokens",
        "top_k": "options.default_sampling.top_k",
        "stop_token_ids": "options.stop_tokens",
        "json_schema": "grammar.json_schema",
        "regex": "grammar.regex",
        "grammar": "grammar.ebnf",
    }
)


def code_of(fault: Fault) -> str:
    """The code that the client's programs know."""
    for cls in type(fault.error).__mro__:
        if code := _CODES.get(cls):
            return code
    return "invalid_request" if fault.status < 500 else "inference_error"


def param_of(error: BaseException) -> str | None:
    """The field that an error is about, by its name on this wire."""
    if field := _engine_field(error):
        return _WIRE_NAMES.get(field, field)
    if isinstance(error, refusals.FieldError):
        return error.field
    if isinstance(error, refusals.UnknownModelError | refusals.UnsafeModelIdError | refusals.ModelKindError):
        return "model"
    if isinstance(error, errors.ContextExceededError):
        return "prompt" if error.prompt_tokens >= error.context_length else "max_new_tokens"
    return error.field if isinstance(error, refusals.GenerationTimeoutError) else None


def message_of(fault: Fault) -> str:
    """The message, with fields as they are named on this wire."""
    field = _engine_field(fault.error)
    if (wire_name := _WIRE_NAMES.get(field)) and fault.message.startswith(field):
        return wire_name + fault.message.removeprefix(field)
    return fault.message


def _engine_field(error: BaseException) -> str:
    if isinstance(error, errors.BudgetTooSmallError):
        return "max_tokens"
    return error.field if isinstance(error, errors.InvalidParameterError) else ""


def render(fault: Fault) -> object:
    """The body of an error."""
    return {"error": {"code": code_of(fault), "message": message_of(fault), "param": param_of(fault.error)}}


def fault_headers(fault: Fault) -> RawHeaders:
    """The code, for clients that do not read the body."""
    return [(b"x-sie-error-code", code_of(fault).encode())]


SIE = Dialect(
    DIALECT,
    render,
    root="/v1/generate",
    fault_headers=fault_headers,
    answer_headers=answer_headers,
    header_names=("X-SIE-Error-Code", "X-SIE-Request-ID", "X-SIE-Server-Version"),
)
