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
          ├── PathNotAllowedError, PathNotLocalError, ModelsFolderError, DownloadError
          ├── UnknownModelError
          │    └── NotAModelError
          ├── UnsafeModelIdError, ModelLoadingError, ModelNotLoadedError, ModelKindError,
          │   ModelKeptError, LoadAbandonedError
          ├── NotInitializedError, OtherLoadRunningError, OtherModelError
          ├── SessionExpiredError, UnknownSessionError, SessionsFullError
          ├── UnknownResponseError, UnknownConversationError, UnknownItemError, ResponseEndedError
          ├── CallCancelledError, GenerationTimeoutError, GenerationCancelledError
          ├── UnauthorizedError, ForeignHostError, ForeignOriginError, RepeatedHostError
          ├── RouteNotFoundError, MethodNotAllowedError, NotSupportedError
          └── ServerDrainingError, ServerStoppingError
"""

from llmserve.server.refusals.access import (
    ForeignHostError,
    ForeignOriginError,
    RepeatedHostError,
    UnauthorizedError,
)
from llmserve.server.refusals.base import (
    MAX_SHOWN_ID,
    Refusal,
)
from llmserve.server.refusals.bodies import (
    BodiesFullError,
    BodyTimeoutError,
    BodyTooLargeError,
    MalformedBodyError,
)
from llmserve.server.refusals.endings import (
    CallCancelledError,
    GenerationCancelledError,
    GenerationTimeoutError,
)
from llmserve.server.refusals.fields import (
    FieldError,
    FieldTooLongError,
    ThreadsNotStoredError,
    UnknownPreviousResponseError,
    UnsupportedFieldError,
)
from llmserve.server.refusals.models import (
    LoadAbandonedError,
    ModelKeptError,
    ModelKindError,
    ModelLoadingError,
    ModelNotLoadedError,
    NotAModelError,
    NotInitializedError,
    OtherLoadRunningError,
    OtherModelError,
    UnknownModelError,
    UnsafeModelIdError,
)
from llmserve.server.refusals.paths import (
    DownloadError,
    ModelsFolderError,
    PathNotAllowedError,
    PathNotLocalError,
)
from llmserve.server.refusals.routes import (
    MethodNotAllowedError,
    NotSupportedError,
    RouteNotFoundError,
    ServerDrainingError,
    ServerStoppingError,
)
from llmserve.server.refusals.stored import (
    ResponseEndedError,
    SessionExpiredError,
    SessionsFullError,
    UnknownConversationError,
    UnknownItemError,
    UnknownResponseError,
    UnknownSessionError,
)

__all__ = [
    "MAX_SHOWN_ID",
    "BodiesFullError",
    "BodyTimeoutError",
    "BodyTooLargeError",
    "CallCancelledError",
    "DownloadError",
    "FieldError",
    "FieldTooLongError",
    "ForeignHostError",
    "ForeignOriginError",
    "GenerationCancelledError",
    "GenerationTimeoutError",
    "LoadAbandonedError",
    "MalformedBodyError",
    "MethodNotAllowedError",
    "ModelKeptError",
    "ModelKindError",
    "ModelLoadingError",
    "ModelNotLoadedError",
    "ModelsFolderError",
    "NotAModelError",
    "NotInitializedError",
    "NotSupportedError",
    "OtherLoadRunningError",
    "OtherModelError",
    "PathNotAllowedError",
    "PathNotLocalError",
    "Refusal",
    "RepeatedHostError",
    "ResponseEndedError",
    "RouteNotFoundError",
    "ServerDrainingError",
    "ServerStoppingError",
    "SessionExpiredError",
    "SessionsFullError",
    "ThreadsNotStoredError",
    "UnauthorizedError",
    "UnknownConversationError",
    "UnknownItemError",
    "UnknownModelError",
    "UnknownPreviousResponseError",
    "UnknownResponseError",
    "UnknownSessionError",
    "UnsafeModelIdError",
    "UnsupportedFieldError",
]
