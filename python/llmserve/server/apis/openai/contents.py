"""What answers of the OpenAI dialect contain, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmserve.server.apis.openai.schema import OpenAiError
from llmserve.server.web.endpoint import FORBIDDEN, Content, Endpoint, json_of

ERROR = json_of(OpenAiError)
_REFUSALS: Mapping[int, Content] = {
    400: Content("Malformed body, a wrong field, a prompt over the context length.", ERROR),
    401: Content("The server requires an API key.", ERROR),
    403: Content(FORBIDDEN, ERROR),
    404: Content("There is no such model.", ERROR),
    408: Content("The body did not arrive in time.", ERROR),
    413: Content("The body is over the limit.", ERROR),
    500: Content("Generation failed.", ERROR),
    502: Content("The model cannot be loaded.", ERROR),
    503: Content("The model is being loaded, the queue is full, or the server is draining.", ERROR),
}


def responses_with(
    description: str, example: Mapping[str, Any], *, has_stream: bool = False
) -> Mapping[int, Content]:
    """A 200 answer with an example, and the errors that all routes have."""
    media: dict[str, Mapping[str, Any]] = {
        "application/json": {"schema": {"type": "object"}, "examples": {"answer": {"value": example}}}
    }
    if has_stream:
        media["text/event-stream"] = {"schema": {"type": "string"}}
    return {200: Content(description, media), **_REFUSALS}


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
