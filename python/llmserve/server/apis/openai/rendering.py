"""Prompts without answers: llama-server's `/apply-template`."""

from __future__ import annotations

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.contents import MODEL_ERRORS, answered
from llmserve.server.apis.openai.conversations import chat_params, conversation_of
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers


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
            may_bring_template = self._services.settings.request_chat_template
            conversation = conversation_of(parsed.value, may_bring_template=may_bring_template)
            params = chat_params(parsed.value)
            plan = await self._services.generation.plan(used, conversation, params, is_stream=False)
        await exchange.send_json({"prompt": plan.prompt.text}, headers=answer_headers(parsed.unknown))
