"""Routes of the OpenAI dialect."""

from __future__ import annotations

from llmserve.server.apis.openai.chat import ChatApi
from llmserve.server.apis.openai.completions import CompletionsApi
from llmserve.server.apis.openai.embeddings import EmbeddingsApi
from llmserve.server.apis.openai.input_tokens import InputTokensApi
from llmserve.server.apis.openai.lora_adapters import LoraAdaptersApi
from llmserve.server.apis.openai.native import NativeCompletionApi
from llmserve.server.apis.openai.props import PropsApi
from llmserve.server.apis.openai.rendering import RenderingApi
from llmserve.server.apis.openai.responses import ResponsesApi
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.responses_stored import StoredResponsesApi
from llmserve.server.apis.openai.slots import SlotsApi
from llmserve.server.apis.openai.stored_conversations import StoredConversationsApi
from llmserve.server.apis.openai.tokens import TokensApi
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Route, routes_of


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    completions = CompletionsApi(services)
    store = ResponseStore(services.settings.max_responses, services.settings.max_responses_bytes)
    return routes_of(
        completions,
        ChatApi(services),
        ResponsesApi(services, store),
        StoredResponsesApi(services.settings.api_key, store),
        StoredConversationsApi(services.settings.api_key, store),
        InputTokensApi(services, store),
        NativeCompletionApi(completions),
        TokensApi(services),
        RenderingApi(services),
        PropsApi(services),
        SlotsApi(services),
        LoraAdaptersApi(services),
        EmbeddingsApi(services),
    )
