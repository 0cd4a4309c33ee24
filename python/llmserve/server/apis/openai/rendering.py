"""llama-server's `/apply-template`, and how many tokens a conversation has."""

from __future__ import annotations

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.contents import MODEL_ERRORS, answered, without_version
from llmserve.server.apis.openai.conversations import chat_params, conversation_of
from llmserve.server.conversation import TurnPlan
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers

_COUNT = Endpoint(
    path="/v1/chat/completions/input_tokens",
    method="POST",
    dialect=OPENAI,
    operation_id="countChatTokens",
    summary="Tokens of a conversation",
    description="How many tokens the prompt of `/v1/chat/completions` would have. Nothing is generated.",
    body=ChatRequest,
    responses=answered("The number.", {"input_tokens": 21}),
    errors=MODEL_ERRORS,
)


class RenderingApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/apply-template",
        method="POST",
        dialect=OPENAI,
        operation_id="applyTemplate",
        summary="Prompt of a conversation",
        description=(
            "The text that the chat template makes of the messages and tools of a request to "
            "`/v1/chat/completions`. Nothing is generated."
        ),
        body=ChatRequest,
        responses=answered("The prompt.", {"prompt": "<|im_start|>user\nHi<|im_end|>\n"}),
        errors=MODEL_ERRORS,
    )
    async def apply_template(self, exchange: Exchange) -> None:
        """`POST /apply-template`."""
        parsed = await exchange.read(ChatRequest)
        async with self._services.on_demand.use(parsed.value.model) as used:
            plan = await self._plan(used, parsed.value)
        await exchange.send_json({"prompt": plan.prompt.text}, headers=answer_headers(parsed.unknown))

    @_COUNT
    @without_version(_COUNT)
    async def count(self, exchange: Exchange) -> None:
        """`POST /v1/chat/completions/input_tokens`."""
        parsed = await exchange.read(ChatRequest)
        async with self._services.on_demand.use(parsed.value.model) as used:
            plan = await self._plan(used, parsed.value)
            tokens = plan.truncated or await used.engine.tokenize(plan.prompt)
        await exchange.send_json({"input_tokens": len(tokens)}, headers=answer_headers(parsed.unknown))

    async def _plan(self, used: UsedModel, request: ChatRequest) -> TurnPlan:
        may_bring_template = self._services.settings.request_chat_template
        conversation = conversation_of(request, may_bring_template=may_bring_template)
        return await self._services.generation.plan(used, conversation, chat_params(request), is_stream=False)
