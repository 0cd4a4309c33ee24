"""Everything that the server itself refuses, before or instead of an engine.

The statuses are in :mod:`llmserve.server.web.error_table`. Messages are for clients: they contain no paths
and no native log lines.

::

    LlmserveError
     └── Refusal
          ├── MalformedBodyError, BodyTooLargeError, BodyTimeoutError, BodiesFullError
          ├── FieldError
          │    └── UnsupportedFieldError, FieldTooLongError, ThreadsNotStoredError,
          │         UnknownPreviousResponseError
          ├── UnsafeModelIdError
          ├── PathNotAllowedError, PathNotLocalError, ModelsFolderError, DownloadError
          ├── UnknownModelError, ModelNotLoadedError, ModelLoadingError, LoadAbandonedError, ModelKindError,
          │    ModelKeptError
          ├── NotInitializedError, OtherLoadRunningError, OtherModelError
          ├── SessionExpiredError, UnknownSessionError, SessionsFullError, CallCancelledError
          ├── UnknownResponseError, UnknownConversationError, UnknownItemError, ResponseEndedError
          ├── GenerationTimeoutError, GenerationCancelledError
          ├── UnauthorizedError, ForeignHostError, ForeignOriginError, RepeatedHostError
          ├── RouteNotFoundError, MethodNotAllowedError, NotSupportedError
          └── ServerDrainingError, ServerStoppingError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from llmserve.errors import LlmserveError
from llmserve.server.model_kind import ModelKind

MAX_SHOWN_ID = 128
"""Messages show at most this many characters of an id that a client sent."""


class Refusal(LlmserveError):
    """Base of all refusals."""

    code = "refused"


class MalformedBodyError(Refusal):
    """The body is not something the route can read, such as invalid JSON."""

    code = "malformed_body"


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


class PathNotAllowedError(Refusal):
    """The path in ``field`` resolves outside the allowed folder, or is not a valid path."""

    code = "path_not_allowed"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is not allowed")
        self.field = field


class PathNotLocalError(Refusal):
    """A request that is not local names a path, while no folder is set for such paths."""

    code = "path_not_local"

    def __init__(self, variable: str) -> None:
        super().__init__(f"paths are accepted from local requests only, unless the server sets {variable}")


class ModelsFolderError(Refusal):
    """The folder of models cannot be changed by this request."""

    code = "models_folder"


class DownloadError(Refusal):
    """A model cannot be downloaded."""

    code = "download_failed"


class UnknownModelError(Refusal):
    """No loaded model has this path, or the catalogue has no such id (``model_id``)."""

    code = "unknown_model"

    def __init__(self, model_id: str | None = None) -> None:
        reason = "unknown model: model must be the path of a loaded model"
        if model_id is not None:
            reason = f"unknown model {model_id[:MAX_SHOWN_ID]!r}: GET /v1/models lists the available models"
        super().__init__(reason)
        self.model_id = model_id


class UnsafeModelIdError(Refusal):
    """The catalogue id has a slash, where the form with ``__`` in its place is required."""

    code = "unsafe_model_id"

    def __init__(self, safe_id: str) -> None:
        super().__init__(f"the model id must be a single path segment: use {safe_id[:MAX_SHOWN_ID]!r}")
        self.safe_id = safe_id


class ModelLoadingError(Refusal):
    """The model is being loaded."""

    code = "model_loading"

    def __init__(self) -> None:
        super().__init__("the model is not ready: it is still being loaded")


class ModelNotLoadedError(Refusal):
    """The catalogue has the model, but it is not loaded, and the request may not load it."""

    code = "model_not_loaded"

    def __init__(self, model_id: str) -> None:
        super().__init__(
            f"the model {model_id[:MAX_SHOWN_ID]!r} is not loaded, and this request does not load it; a "
            "request that computes with it does, such as POST /tokenize"
        )


class ModelKindError(Refusal):
    """The model cannot do what the request asks for, which is ``wanted``.

    ``found`` is what it is for; without it, there is no model of the kind.
    """

    code = "wrong_model_kind"

    _WANTED: ClassVar[Mapping[ModelKind, str]] = {
        "generation": "generate text",
        "embedding": "give embeddings",
        "reranking": "rank documents",
    }
    _FOUND: ClassVar[Mapping[ModelKind, tuple[str, str]]] = {
        "generation": ("generates text", ""),
        "embedding": ("gives embeddings", ": use it at /v1/embeddings"),
        "reranking": ("ranks documents", ": use it at /v1/rerank"),
    }

    def __init__(self, wanted: ModelKind, found: ModelKind | None = None) -> None:
        if found is None:
            message = f"there is no model to {self._WANTED[wanted]}"
        else:
            does, hint = self._FOUND[found]
            message = f"the model {does} and does not {self._WANTED[wanted]}{hint}"
        super().__init__(message)
        self.wanted = wanted


class ModelKeptError(Refusal):
    """The model stays loaded for somebody who must release it otherwise."""

    code = "model_kept"

    def __init__(self) -> None:
        super().__init__(
            "the model stays loaded: the server was started with it, or /v1/generation/init uses it"
        )


class LoadAbandonedError(Refusal):
    """The load was cancelled because nobody was waiting for it any more."""

    code = "load_abandoned"

    def __init__(self) -> None:
        super().__init__("the load was cancelled")


class NotInitializedError(Refusal):
    """The dialect has no model, because none was loaded yet or it was shut down."""

    code = "not_initialized"

    def __init__(self) -> None:
        super().__init__("no model is loaded here: call init first")


class OtherLoadRunningError(Refusal):
    """The dialect is loading a model, and this call concerns another one."""

    code = "other_load_running"

    def __init__(self) -> None:
        super().__init__("a model is being loaded: wait until it has finished")


class OtherModelError(Refusal):
    """The path is not that of the loaded model, which this call requires."""

    code = "other_model"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} must be the path of the loaded model")


class SessionExpiredError(Refusal):
    """The session to continue is gone: it was idle for too long, or made room for a newer one."""

    code = "session_expired"

    def __init__(self) -> None:
        super().__init__("the session has expired: the next call begins a new one")


class UnknownSessionError(Refusal):
    """There is no session of this name."""

    code = "unknown_session"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no session {name[:MAX_SHOWN_ID]!r}")


class SessionsFullError(Refusal):
    """The maximum number of sessions exists, and all of them are in use."""

    code = "sessions_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"all {limit} sessions are in use")
        self.limit = limit


class UnknownResponseError(Refusal):
    """No response with this id is stored for the client. The words are OpenAI's."""

    code = "response_not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response with id '{response_id[:MAX_SHOWN_ID]}' not found.")


class UnknownConversationError(Refusal):
    """No conversation with this id is stored for the client. The words are OpenAI's."""

    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation with id '{conversation_id[:MAX_SHOWN_ID]}' not found.")


class UnknownItemError(Refusal):
    """A conversation has no item with this id."""

    code = "item_not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"Item with id '{item_id[:MAX_SHOWN_ID]}' not found.")


class ResponseEndedError(Refusal):
    """A response that does not run in the background cannot be cancelled. The words are OpenAI's."""

    code = "response_not_cancellable"

    def __init__(self, kind: Literal["synchronous", "completed"]) -> None:
        super().__init__(f"Cannot cancel a {kind} response.")


class CallCancelledError(Refusal):
    """The call was cancelled, and a partial answer would be useless or look like a whole one."""

    code = "call_cancelled"

    def __init__(self, message: str = "the call was cancelled in its session") -> None:
        super().__init__(message)


class GenerationTimeoutError(Refusal):
    """A time limit that the request itself set has passed."""

    code = "timeout"

    def __init__(self, field: str, seconds: float) -> None:
        super().__init__(f"the request exceeded {field} ({seconds:g} s)")
        self.field = field
        self.seconds = seconds


class GenerationCancelledError(Refusal):
    """Another client ended the session's running calls."""

    code = "generation_cancelled"

    def __init__(self) -> None:
        super().__init__(
            "the generation was cancelled: another client ended the running calls of its session"
        )


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
