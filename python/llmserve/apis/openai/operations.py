"""What the routes of the OpenAI dialect take and answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.apis.openai.chat_schema import ChatRequest
from llmserve.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.apis.openai.schema import OpenAiError, OpenAiErrorDetail
from llmserve.http.endpoint import Content, Endpoint, Serve

RESPONSE_TYPES = (OpenAiError, OpenAiErrorDetail)
"""Classes that responses refer to."""

_ERROR: Mapping[str, Mapping[str, Any]] = {
    "application/json": {"schema": {"$ref": f"#/components/schemas/{OpenAiError.__name__}"}}
}
_REFUSALS: Mapping[int, Content] = {
    400: Content("Malformed body, a wrong field, a prompt over the context length.", _ERROR),
    401: Content("The server wants an API key.", _ERROR),
    403: Content("The request came from a foreign page or host.", _ERROR),
    404: Content("There is no such model.", _ERROR),
    413: Content("The body is over the limit.", _ERROR),
    500: Content("Generation failed.", _ERROR),
    502: Content("The model cannot be loaded.", _ERROR),
    503: Content("The model is being loaded, the queue is full, or the server is draining.", _ERROR),
}


def _answers(description: str, example: Mapping[str, Any], *, has_stream: bool) -> Mapping[int, Content]:
    media: dict[str, Mapping[str, Any]] = {
        "application/json": {"schema": {"type": "object"}, "examples": {"answer": {"value": example}}}
    }
    if has_stream:
        media["text/event-stream"] = {"schema": {"type": "string"}}
    return {200: Content(description, media), **_REFUSALS}


_GENERATED = (
    "`X-LLMServe-Seed` holds the seed that was used, `X-LLMServe-Ignored` the fields without effect. A "
    "stream has chunks, then `data: [DONE]`; one that fails ends with an `error` object."
)


def completions(serve: Serve) -> Endpoint:
    """`POST /v1/completions`."""
    example = {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1767225600,
        "model": "SmolLM2-135M-Instruct.Q4_1",
        "choices": [{"index": 0, "text": " Paris.", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }
    return Endpoint(
        path="/v1/completions",
        method="POST",
        serve=serve,
        operation_id="createCompletion",
        summary="Complete prompts",
        description="Generates text from raw prompts. A client that disconnects cancels its request.",
        body=OpenAiCompletionRequest,
        responses=_answers(_GENERATED, example, has_stream=True),
    )


def chat(serve: Serve) -> Endpoint:
    """`POST /v1/chat/completions`."""
    message = {"role": "assistant", "content": "Paris.", "refusal": None}
    example = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1767225600,
        "model": "SmolLM2-135M-Instruct.Q4_1",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }
    return Endpoint(
        path="/v1/chat/completions",
        method="POST",
        serve=serve,
        operation_id="createChatCompletion",
        summary="Answer a conversation",
        description=(
            "Generates the assistant's next turn: reasoning, words and tool calls. The arguments of calls "
            "always match the schemas of their tools."
        ),
        body=ChatRequest,
        responses=_answers(_GENERATED, example, has_stream=True),
    )
