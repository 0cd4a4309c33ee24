"""What answers of Ollama's dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.web.endpoint import Content
from llmserve.server.web.model_errors import MODEL_ERRORS

GENERATION_ERRORS: Mapping[int, str] = {
    **MODEL_ERRORS,
    409: "Another client cancelled the calls of the session, or what keeps the model is not the client.",
    410: "The session has expired; the next call begins it anew.",
}
CHANGE_ERRORS: Mapping[int, str] = {
    400: "The name is not one of a model that can be downloaded.",
    403: "The server has no folder of models, or the model is not in it.",
    404: "There is no such model.",
    409: "The model stays loaded for the server's start.",
    500: "The files cannot be changed.",
    503: "The model is being loaded.",
}
"""Of what changes the folder of models."""


def answered(example: Mapping[str, Any], *, has_stream: bool = False) -> Mapping[int, Content]:
    """An answer of 200, of which an example is given."""
    shown = {"schema": {"type": "object"}, "examples": {"answer": {"value": example}}}
    text = "Durations are in nanoseconds. `X-LLMServe-Ignored` has the fields without effect."
    if not has_stream:
        return {200: Content(text, {"application/json": shown})}
    lines = {"schema": {"type": "string", "description": "One JSON object a line, the last one with `done`."}}
    return {
        200: Content(
            f"{text} A stream that fails ends with a line that has `error`.",
            {"application/json": shown, "application/x-ndjson": lines},
        )
    }
