"""Answers 501 with the reason, in the shape of the dialect that a route belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from llmserve.server.error_shapes.anthropic import ANTHROPIC
from llmserve.server.error_shapes.ollama import OLLAMA
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.error_shapes.sie import SIE
from llmserve.server.refusals import NotSupportedError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import ANY_METHOD, Endpoint, Route
from llmserve.server.web.errors import Dialect
from llmserve.server.web.exchange import Exchange

_IMAGES = "llmserve generates text, not images"
_AUDIO = "llmserve works with text, not audio"
_SCORE = "of SIE's routes, /v1/generate is served; documents are ranked at /v1/rerank and /v1/score"
_ENCODE = "of SIE's routes, /v1/generate is served; embeddings are at /v1/embeddings"
_FILES = "llmserve does not store files for clients"
_BATCHES = "llmserve does not store jobs; send the requests at the same time, and they are computed together"
_TUNING = "llmserve does not train models"
_MODELFILE = "llmserve has no Modelfiles; GGUF files are served as they are, with the server's settings"
_STATE = (
    "llmserve does not store conversations under ids; continue a response of /v1/responses by "
    "previous_response_id, or send the whole conversation"
)
_COMPACT = "llmserve does not shorten conversations; a prompt over the context length is a 400"

REASONS: Mapping[Dialect, Mapping[str, str]] = {
    OPENAI: {
        "/v1/images": _IMAGES,
        "/v1/videos": _IMAGES,
        "/v1/audio": _AUDIO,
        "/v1/realtime": _AUDIO,
        "/v1/moderations": "llmserve has no moderation model",
        "/v1/fine_tuning": _TUNING,
        "/v1/evals": _TUNING,
        "/v1/files": _FILES,
        "/v1/uploads": _FILES,
        "/v1/vector_stores": _FILES,
        "/v1/batches": _BATCHES,
        "/v1/jobs": _BATCHES,
        "/v1/assistants": _STATE,
        "/v1/threads": _STATE,
        "/v1/responses/compact": _COMPACT,
        "/props": "properties are settings of the server, which do not change while it runs",
        "/lora-adapters": "adapters and their scales are load options of a model, see LLMSERVE_LORA and the "
        "catalogue",
    },
    ANTHROPIC: {
        "/v1/messages/batches": _BATCHES,
        "/v1/complete": "llmserve has the newer /v1/messages",
    },
    OLLAMA: {
        "/api/create": _MODELFILE,
        "/api/copy": "a model has the name of its file, or that of --served-model-name or the catalogue file",
        "/api/push": "llmserve does not upload models",
        "/api/blobs": _MODELFILE,
    },
    SIE: {
        "/v1/score/{model}": _SCORE,
        "/v1/encode": _ENCODE,
        "/v1/extract": _ENCODE,
    },
}
"""Path -> reason; it holds for everything below the path too."""


def routes(services: Services) -> list[Route]:
    """All of them, for every method."""
    return [
        _refused(Endpoint(path=path, method=ANY_METHOD, dialect=dialect), reason)
        for dialect, reasons in REASONS.items()
        for root, reason in reasons.items()
        for path in (root, root + "/{rest:path}")
    ]


def _refused(endpoint: Endpoint, reason: str) -> Route:
    async def refuse(exchange: Exchange) -> None:
        raise NotSupportedError(reason)

    return Route(endpoint, refuse)
