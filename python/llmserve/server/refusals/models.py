"""Models that do not exist, are not ready, or are for something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from llmserve.server.model_kind import ModelKind
from llmserve.server.refusals.base import MAX_SHOWN_ID, Refusal


class UnknownModelError(Refusal):
    """No loaded model has this path, or the catalogue has no such id (``model_id``)."""

    code = "unknown_model"

    def __init__(self, model_id: str | None = None) -> None:
        reason = "unknown model: model must be the path of a loaded model"
        if model_id is not None:
            reason = f"unknown model {model_id[:MAX_SHOWN_ID]!r}: GET /v1/models lists the available models"
        super().__init__(reason)
        self.model_id = model_id


class NotAModelError(UnknownModelError):
    """The id is that of a file that is not a model by itself; ``role`` is what it is."""

    def __init__(self, model_id: str, role: str) -> None:
        super().__init__(model_id)
        self.role = role
        self.args = (f"{model_id[:MAX_SHOWN_ID]!r} is not a model, but {role}",)


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
