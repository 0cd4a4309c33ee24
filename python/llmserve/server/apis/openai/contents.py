"""What answers of the OpenAI dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmserve.server.apis.openai.schema import MODEL
from llmserve.server.web.endpoint import Content, Endpoint
from llmserve.server.web.model_errors import MODEL_ERRORS
from llmserve.server.web.parameters import Parameter, as_it_is

LOADED_ERRORS: Mapping[int, str] = {
    404: "There is no such model.",
    409: "The model is not loaded.",
    502: "The model could not be loaded a moment ago.",
    503: "The model is being loaded.",
}
"""Of what loads no model."""
GENERATION_ERRORS: Mapping[int, str] = {
    **MODEL_ERRORS,
    409: "Another client cancelled the calls of the session.",
}
COMPLETION_ERRORS: Mapping[int, str] = {
    **GENERATION_ERRORS,
    410: "The session has expired; the next call begins it anew.",
}
"""Of raw prompts, which go on with what the session holds."""


MODEL_QUERY: Parameter[str, None] = Parameter(
    name="model", place="query", doc=MODEL.doc, read=as_it_is, default=None
)


def answered(
    description: str, example: Mapping[str, Any] | Sequence[Any], *, has_stream: bool = False
) -> Mapping[int, Content]:
    """An answer of 200, of which an example is given."""
    kind = "object" if isinstance(example, Mapping) else "array"
    media: dict[str, Mapping[str, Any]] = {
        "application/json": {"schema": {"type": kind}, "examples": {"answer": {"value": example}}}
    }
    if has_stream:
        media["text/event-stream"] = {"schema": {"type": "string"}}
    return {200: Content(description, media)}


GENERATED = (
    "`X-LLMServe-Seed` is the seed that was used, `X-LLMServe-Ignored` the fields without effect. A "
    "stream has chunks, then `data: [DONE]`; one that fails ends with an `error` object."
)


def without_version(endpoint: Endpoint) -> Endpoint:
    """An endpoint without `/v1`, as llama-server has it."""
    return replace(
        endpoint,
        path=endpoint.path.removeprefix("/v1"),
        operation_id=f"{endpoint.operation_id}WithoutVersion",
        summary=f"{endpoint.summary}, without /v1",
    )
