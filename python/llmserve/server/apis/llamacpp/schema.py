"""Wire types of the llamacpp-server dialect, beside those of :mod:`llmserve.server.apis.completions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.web.fields import Field
from llmserve.server.web.schema import Parsed, read


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModelRequest:
    """Which model to load."""

    path: Annotated[
        str,
        Field(
            "Filesystem path to the GGUF model file. With MODELS_DIR set it must resolve inside that "
            "folder, and relative paths start there.",
            example="/models/SmolLM2-135M-Instruct-Q4_K_M.gguf",
            non_empty=True,
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadByIdRequest:
    """Which model to load, as llama-server's router has it."""

    model: Annotated[str, Field("An id of `GET /v1/models`.", non_empty=True)]


def read_load(body: Mapping[str, Any]) -> Parsed[LoadModelRequest] | Parsed[LoadByIdRequest]:
    """A body with a path, or with a model instead.

    Raises:
        FieldError: A field is wrong.
    """
    if body.get("model") and not body.get("path"):
        return read(LoadByIdRequest, body)
    return read(LoadModelRequest, body)


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
