"""What the routes of the OpenAI dialect take and answer, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.embeddings_schema import EmbeddingRequest, EmbeddingsRequest
from llmserve.server.apis.openai.native_schema import NativeCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.schema import OpenAiError, OpenAiErrorDetail
from llmserve.server.apis.openai.tokens_schema import DetokenizeRequest, TokenizeRequest
from llmserve.server.web.endpoint import Content, Endpoint, Serve
from llmserve.server.web.gate import FORBIDDEN

RESPONSE_TYPES = (OpenAiError, OpenAiErrorDetail)
"""Classes that responses refer to."""

_ERROR: Mapping[str, Mapping[str, Any]] = {
    "application/json": {"schema": {"$ref": f"#/components/schemas/{OpenAiError.__name__}"}}
}
_REFUSALS: Mapping[int, Content] = {
    400: Content("Malformed body, a wrong field, a prompt over the context length.", _ERROR),
    401: Content("The server wants an API key.", _ERROR),
    403: Content(FORBIDDEN, _ERROR),
    404: Content("There is no such model.", _ERROR),
    408: Content("The body did not arrive in time.", _ERROR),
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


def responses(serve: Serve) -> Endpoint:
    """`POST /v1/responses`."""
    part = {"type": "output_text", "text": "Paris.", "annotations": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    example = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1767225600,
        "model": "SmolLM2-135M-Instruct.Q4_1",
        "status": "completed",
        "output": [item],
        "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
    }
    return Endpoint(
        path="/v1/responses",
        method="POST",
        serve=serve,
        operation_id="createResponse",
        summary="Answer a conversation (responses)",
        description=(
            "The stateless core of the Responses API: the whole conversation comes as `input`. Nothing is "
            "stored. A stream has typed events and ends with `response.completed` or `response.incomplete`."
        ),
        body=ResponsesRequest,
        responses=_answers(_GENERATED, example, has_stream=True),
    )


def native_completion(serve: Serve) -> Endpoint:
    """`POST /completion`."""
    example = {"content": " Paris.", "stop": True, "tokens_predicted": 2, "stop_type": "limit"}
    return Endpoint(
        path="/completion",
        method="POST",
        serve=serve,
        operation_id="createNativeCompletion",
        summary="Complete a prompt, as llama-server does it",
        description=(
            "The same as `/v1/completions` for one prompt, in llama-server's shape and with its defaults. A "
            "stream ends with the event that has `stop`, without `[DONE]`."
        ),
        body=NativeCompletionRequest,
        responses=_answers(_GENERATED, example, has_stream=True),
    )


def tokenize(serve: Serve) -> Endpoint:
    """`POST /tokenize`."""
    return Endpoint(
        path="/tokenize",
        method="POST",
        serve=serve,
        operation_id="tokenize",
        summary="Tokens of a text",
        description="As llama-server does it.",
        body=TokenizeRequest,
        responses=_answers("The tokens.", {"tokens": [504, 3575]}, has_stream=False),
    )


def detokenize(serve: Serve) -> Endpoint:
    """`POST /detokenize`."""
    return Endpoint(
        path="/detokenize",
        method="POST",
        serve=serve,
        operation_id="detokenize",
        summary="Text of tokens",
        description="As llama-server does it; control tokens are shown.",
        body=DetokenizeRequest,
        responses=_answers("The text.", {"content": "The capital"}, has_stream=False),
    )


def props(serve: Serve) -> Endpoint:
    """`GET /props`."""
    return Endpoint(
        path="/props",
        method="GET",
        serve=serve,
        operation_id="props",
        summary="What is known of a model",
        description=(
            "As llama-server does it, of the first model in `GET /v1/models` or of the one that the query "
            "`model` names. It must be loaded: this route loads none."
        ),
        responses={
            **_answers("The properties.", {"total_slots": 16}, has_stream=False),
            409: Content("The model is not loaded.", _ERROR),
        },
    )


def embeddings(serve: Serve) -> Endpoint:
    """`POST /v1/embeddings`."""
    example = {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
        "model": "bge-small-en-v1.5",
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    }
    return Endpoint(
        path="/v1/embeddings",
        method="POST",
        serve=serve,
        operation_id="createEmbedding",
        summary="Vectors of texts",
        description=(
            "The vectors have length 1. An input that is longer than the model's context length is refused, "
            "and nothing is cut off. Inputs of all requests are computed together."
        ),
        body=EmbeddingsRequest,
        responses=_answers("The vectors, in the order of the inputs.", example, has_stream=False),
    )


def embedding(serve: Serve, path: str) -> Endpoint:
    """llama-server's `POST /embedding`, or the same under its other name."""
    answers = _answers("The vectors.", {}, has_stream=False)
    schema = {"schema": {"type": "array", "items": {"type": "object"}}}
    example = {"examples": {"answer": {"value": [{"index": 0, "embedding": [[0.6, -0.8]]}]}}}
    return Endpoint(
        path=path,
        method="POST",
        serve=serve,
        operation_id=path.removeprefix("/"),
        summary="Vectors of texts, in llama-server's shape",
        description="As llama-server does it; `/v1/embeddings` has OpenAI's shape.",
        body=EmbeddingRequest,
        responses={**answers, 200: Content("The vectors.", {"application/json": {**schema, **example}})},
    )
