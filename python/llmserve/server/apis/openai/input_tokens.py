"""How many tokens the prompt of a conversation has, by the names of OpenAI and llama-server."""

from __future__ import annotations

from collections.abc import Sequence

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.contents import answered, without_version
from llmserve.server.apis.openai.conversations import chat_params
from llmserve.server.apis.openai.conversations import conversation_of as chat_conversation
from llmserve.server.apis.openai.responses_input import conversation_of, response_params
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.stored_parts import items_of
from llmserve.server.conversation import Conversation, prompt_tokens
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.services import Services
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS

_DESCRIPTION = "The body is that of a request for an answer, whose prompt is counted. Nothing is generated."
_ANSWERED = answered("The number.", {"object": "response.input_tokens", "input_tokens": 12})

_OF_RESPONSE = Endpoint(
    path="/v1/responses/input_tokens",
    method="POST",
    dialect=OPENAI,
    operation_id="countResponseTokens",
    summary="Tokens of a conversation (responses)",
    description=_DESCRIPTION,
    body=ResponsesRequest,
    responses=_ANSWERED,
    errors=MODEL_ERRORS,
)
_OF_CHAT = Endpoint(
    path="/v1/chat/completions/input_tokens",
    method="POST",
    dialect=OPENAI,
    operation_id="countChatTokens",
    summary="Tokens of a conversation",
    description=_DESCRIPTION,
    body=ChatRequest,
    responses=_ANSWERED,
    errors=MODEL_ERRORS,
)


class InputTokensApi:
    """The routes over the shared services."""

    def __init__(self, services: Services, store: ResponseStore) -> None:
        self._services = services
        self._store = store

    @_OF_RESPONSE
    @without_version(_OF_RESPONSE)
    async def count_response(self, exchange: Exchange) -> None:
        """`POST /v1/responses/input_tokens`."""
        parsed = await exchange.read(ResponsesRequest)
        request = parsed.value
        settings = self._services.settings
        owner = owner_of(settings.api_key, exchange.request.scope)
        _, previous = self._store.continued(owner, request)
        items = await items_of(previous)
        conversation = conversation_of(request, items, may_bring_template=settings.request_chat_template)
        await self._count(exchange, request.model, conversation, response_params(request), parsed.unknown)

    @_OF_CHAT
    @without_version(_OF_CHAT)
    async def count_chat(self, exchange: Exchange) -> None:
        """`POST /v1/chat/completions/input_tokens`, which is llama-server's."""
        parsed = await exchange.read(ChatRequest)
        may_bring_template = self._services.settings.request_chat_template
        request = parsed.value
        conversation = chat_conversation(request, may_bring_template=may_bring_template)
        await self._count(exchange, request.model, conversation, chat_params(request), parsed.unknown)

    async def _count(
        self,
        exchange: Exchange,
        model: str | None,
        conversation: Conversation,
        params: SamplingParams,
        unknown: Sequence[str],
    ) -> None:
        async with self._services.on_demand.use(model) as used:
            plan = await self._services.generation.plan(used, conversation, params, is_stream=False)
            tokens = await prompt_tokens(used.engine, plan)
        answer = {"object": "response.input_tokens", "input_tokens": len(tokens)}
        await exchange.send_json(answer, headers=answer_headers(unknown))
