"""Wire types of the llamacpp-server dialect, beside those of :mod:`llmserve.server.apis.completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from llmserve.server.web.fields import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModelRequest:
    """Which model to load."""

    path: Annotated[
        str | None,
        Field(
            "Filesystem path to the GGUF model file. With MODELS_DIR set it must resolve inside that "
            "folder, and relative paths start there.",
            example="/models/SmolLM2-135M-Instruct-Q4_K_M.gguf",
        ),
    ] = None
    model: Annotated[
        str | None,
        Field("Instead of `path`, as llama-server's router has it: an id of `GET /v1/models`."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResponse:
    """Generated text: one token in streaming mode, otherwise the whole text."""

    message: Annotated[
        str,
        Field(
            "Generated text. In a stream it may be empty while a character is incomplete.",
            example="The",
        ),
    ]
    token: Annotated[int, Field("Token ID of the generated token; 0 in a whole answer.", example=450)]
    tokens: Annotated[int, Field("Running total of tokens generated so far; 0 in a whole answer.", example=5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """Why a request was refused or failed."""

    error: Annotated[str, Field("Human-readable error message.", example="path is required")]
