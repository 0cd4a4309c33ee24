"""One table for all dialects: exception class -> statuses.

A dialect takes its status from its column where its contract differs and shapes only the body.
A class that is not in the table has its nearest base's rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmserve import errors
from llmserve.server import refusals


@dataclass(frozen=True, slots=True)
class Rule:
    """The statuses of an exception class."""

    status: int
    """HTTP status."""
    openai_type: str
    """``error.type`` in OpenAI's shape."""
    grpc_status: str
    """Name of the gRPC status."""
    retry_after_s: float | None = None
    """When to try again; an exception's own ``retry_after_s`` wins."""
    dialects: Mapping[str, int] = field(default_factory=dict)
    """HTTP statuses of dialects whose contract differs."""
    grpc_reasons: Mapping[str, str] = field(default_factory=dict)
    """gRPC statuses by an exception's ``reason``, where they differ."""

    def status_for(self, dialect: str) -> int:
        """The HTTP status in a dialect."""
        return self.dialects.get(dialect, self.status)

    def grpc_status_for(self, error: BaseException) -> str:
        """Name of the gRPC status of an exception of this rule."""
        return self.grpc_reasons.get(getattr(error, "reason", ""), self.grpc_status)


_INVALID = "invalid_request_error"
_SERVER = "server_error"
_BUSY = "overloaded_error"

RULES: Mapping[type[BaseException], Rule] = {
    # Exceptions of the Python API.
    errors.RequestError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    errors.TemplateError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    errors.NoDraftHeadError: Rule(400, _INVALID, "FAILED_PRECONDITION"),
    errors.SessionError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    errors.QueueFullError: Rule(
        503, _BUSY, "RESOURCE_EXHAUSTED", retry_after_s=1.0, dialects={"anthropic": 529}
    ),
    errors.LoadError: Rule(
        502,
        _SERVER,
        "INVALID_ARGUMENT",
        dialects={"llamatik": 400},
        grpc_reasons={
            "not_found": "NOT_FOUND",
            "not_readable": "PERMISSION_DENIED",
            "not_enough_memory": "RESOURCE_EXHAUSTED",
            "probe_failed": "INTERNAL",
            "load_failed": "INTERNAL",
        },
    ),
    errors.WrongModelKindError: Rule(400, _INVALID, "FAILED_PRECONDITION"),
    errors.GenerationError: Rule(500, _SERVER, "INTERNAL"),
    errors.EngineDeadError: Rule(500, _SERVER, "INTERNAL"),
    errors.EngineClosedError: Rule(503, _BUSY, "UNAVAILABLE", retry_after_s=1.0),
    # Refusals of the server.
    refusals.MalformedBodyError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    refusals.FieldError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    refusals.FieldTooLongError: Rule(413, _INVALID, "INVALID_ARGUMENT"),
    refusals.BodyTooLargeError: Rule(413, _INVALID, "INVALID_ARGUMENT"),
    refusals.BodyTimeoutError: Rule(408, _INVALID, "DEADLINE_EXCEEDED"),
    refusals.BodiesFullError: Rule(
        503, _BUSY, "RESOURCE_EXHAUSTED", retry_after_s=1.0, dialects={"anthropic": 529}
    ),
    refusals.PathNotAllowedError: Rule(
        403, "permission_error", "PERMISSION_DENIED", dialects={"llamacpp": 400, "llamatik": 400}
    ),
    refusals.PathNotLocalError: Rule(403, "permission_error", "PERMISSION_DENIED"),
    refusals.ModelsFolderError: Rule(403, "permission_error", "PERMISSION_DENIED"),
    refusals.DownloadError: Rule(502, _SERVER, "UNAVAILABLE"),
    refusals.UnknownModelError: Rule(404, _INVALID, "NOT_FOUND", dialects={"llamacpp": 400}),
    refusals.UnsafeModelIdError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    refusals.ModelLoadingError: Rule(
        503, _BUSY, "UNAVAILABLE", retry_after_s=1.0, dialects={"llamacpp": 400}
    ),
    refusals.ModelNotLoadedError: Rule(409, _INVALID, "FAILED_PRECONDITION"),
    refusals.ModelKeptError: Rule(409, _INVALID, "FAILED_PRECONDITION"),
    refusals.ModelKindError: Rule(400, _INVALID, "FAILED_PRECONDITION"),
    refusals.LoadAbandonedError: Rule(409, _INVALID, "CANCELLED"),
    refusals.NotInitializedError: Rule(409, _INVALID, "FAILED_PRECONDITION"),
    refusals.OtherLoadRunningError: Rule(409, _INVALID, "FAILED_PRECONDITION"),
    refusals.OtherModelError: Rule(409, _INVALID, "FAILED_PRECONDITION"),
    refusals.SessionExpiredError: Rule(410, _INVALID, "NOT_FOUND"),
    refusals.UnknownSessionError: Rule(404, _INVALID, "NOT_FOUND"),
    refusals.SessionsFullError: Rule(
        503, _BUSY, "RESOURCE_EXHAUSTED", retry_after_s=1.0, dialects={"anthropic": 529}
    ),
    refusals.UnknownResponseError: Rule(404, _INVALID, "NOT_FOUND"),
    refusals.UnknownConversationError: Rule(404, _INVALID, "NOT_FOUND"),
    refusals.UnknownItemError: Rule(404, _INVALID, "NOT_FOUND"),
    refusals.ResponseEndedError: Rule(400, _INVALID, "FAILED_PRECONDITION"),
    refusals.CallCancelledError: Rule(409, _INVALID, "CANCELLED"),
    refusals.GenerationTimeoutError: Rule(504, _SERVER, "DEADLINE_EXCEEDED"),
    refusals.GenerationCancelledError: Rule(503, _SERVER, "CANCELLED"),
    refusals.UnauthorizedError: Rule(401, "authentication_error", "UNAUTHENTICATED"),
    refusals.ForeignHostError: Rule(403, "permission_error", "PERMISSION_DENIED"),
    refusals.RepeatedHostError: Rule(400, _INVALID, "INVALID_ARGUMENT"),
    refusals.ForeignOriginError: Rule(403, "permission_error", "PERMISSION_DENIED"),
    refusals.RouteNotFoundError: Rule(404, _INVALID, "UNIMPLEMENTED"),
    refusals.MethodNotAllowedError: Rule(405, _INVALID, "UNIMPLEMENTED"),
    refusals.NotSupportedError: Rule(501, _INVALID, "UNIMPLEMENTED"),
    refusals.ServerDrainingError: Rule(503, _BUSY, "UNAVAILABLE", retry_after_s=5.0),
    refusals.ServerStoppingError: Rule(503, _BUSY, "UNAVAILABLE", retry_after_s=5.0),
}

INTERNAL = Rule(500, _SERVER, "INTERNAL")
"""The rule of unexpected exceptions, whose text goes to the log only."""


def rule_for(error: BaseException) -> Rule | None:
    """The rule of an exception's nearest class, or ``None`` for an unexpected exception."""
    return next((RULES[cls] for cls in type(error).__mro__ if cls in RULES), None)


def rule_of(cls: type[BaseException]) -> Rule:
    """The rule of a class that has one, by its nearest base."""
    return next(RULES[base] for base in cls.__mro__ if base in RULES)


def retry_after(error: BaseException, rule: Rule) -> str | None:
    """The value of ``Retry-After``: whole seconds, at least 1."""
    seconds: float | None = getattr(error, "retry_after_s", None) or rule.retry_after_s
    return None if seconds is None else str(max(1, math.ceil(seconds)))
