"""Routes of the OpenAI dialect."""

from __future__ import annotations

from dataclasses import replace

from llmserve.server.apis.openai import operations
from llmserve.server.apis.openai.chat import ChatApi
from llmserve.server.apis.openai.completions import CompletionsApi
from llmserve.server.apis.openai.embeddings import EmbeddingsApi
from llmserve.server.apis.openai.native import NativeCompletionApi
from llmserve.server.apis.openai.responses import ResponsesApi
from llmserve.server.apis.openai.tokens import TokensApi
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint

_BARE = ("/v1/chat/completions", "/v1/responses")
"""Also served without `/v1`, as by llama-server. `/completions` is another dialect's there."""


class OpenAiApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._completions = CompletionsApi(services)
        self._native = NativeCompletionApi(services, self._completions)
        self._chat = ChatApi(services)
        self._responses = ResponsesApi(services)
        self._tokens = TokensApi(services)
        self._embeddings = EmbeddingsApi(services)

    def endpoints(self) -> list[Endpoint]:
        """Everything that the dialect serves."""
        served = [
            operations.completions(self._completions.serve),
            operations.chat(self._chat.serve),
            operations.responses(self._responses.serve),
            operations.native_completion(self._native.serve),
            operations.tokenize(self._tokens.tokenize),
            operations.detokenize(self._tokens.detokenize),
            operations.props(self._tokens.props),
            operations.embeddings(self._embeddings.embeddings),
            operations.embedding(self._embeddings.embedding, "/embedding"),
            operations.embedding(self._embeddings.embedding, "/embeddings"),
        ]
        return [*served, *(_without_version(endpoint) for endpoint in served if endpoint.path in _BARE)]


def _without_version(endpoint: Endpoint) -> Endpoint:
    return replace(
        endpoint,
        path=endpoint.path.removeprefix("/v1"),
        operation_id=f"{endpoint.operation_id}WithoutVersion",
        summary=f"{endpoint.summary}, without /v1",
    )
