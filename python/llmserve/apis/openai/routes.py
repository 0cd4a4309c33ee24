"""Routes of the OpenAI dialect."""

from __future__ import annotations

from llmserve.apis.openai import operations
from llmserve.apis.openai.chat import ChatApi
from llmserve.apis.openai.completions import CompletionsApi
from llmserve.apis.openai.embeddings import EmbeddingsApi
from llmserve.apis.openai.responses import ResponsesApi
from llmserve.apis.openai.tokens import TokensApi
from llmserve.http.endpoint import Endpoint
from llmserve.services import Services


class OpenAiApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._completions = CompletionsApi(services)
        self._chat = ChatApi(services)
        self._responses = ResponsesApi(services)
        self._tokens = TokensApi(services)
        self._embeddings = EmbeddingsApi(services)

    def endpoints(self) -> list[Endpoint]:
        """Everything that the dialect serves."""
        return [
            operations.completions(self._completions.serve),
            operations.chat(self._chat.serve),
            operations.responses(self._responses.serve),
            operations.tokenize(self._tokens.tokenize),
            operations.detokenize(self._tokens.detokenize),
            operations.props(self._tokens.props),
            operations.embeddings(self._embeddings.embeddings),
            operations.embedding(self._embeddings.embedding, "/embedding"),
            operations.embedding(self._embeddings.embedding, "/embeddings"),
        ]
