"""Prompts without answers: llama-server's `/apply-template`, and vLLM's `/render`, which is for routers."""

from __future__ import annotations

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completion_choice import Choice
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.contents import answered
from llmserve.server.apis.openai.conversations import chat_params, conversation_of
from llmserve.server.conversation import TurnPlan, prompt_tokens
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS

_FOR_ROUTERS = "Nothing is generated: routers choose a replica by what its prefix cache has of them."


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

    @Endpoint(
        path="/v1/chat/completions/render",
        method="POST",
        dialect=OPENAI,
        operation_id="renderChatCompletion",
        summary="Tokens of a conversation's prompt",
        description=f"The tokens of the prompt of `/v1/chat/completions`. {_FOR_ROUTERS}",
        body=ChatRequest,
        responses=answered("The tokens.", {"token_ids": [1, 4093, 198]}),
        errors=MODEL_ERRORS,
    )
    async def render_chat(self, exchange: Exchange) -> None:
        """`POST /v1/chat/completions/render`."""
        parsed = await exchange.read(ChatRequest)
        async with self._services.on_demand.use(parsed.value.model) as used:
            plan = await self._plan(used, parsed.value)
            tokens = await prompt_tokens(used.engine, plan)
        await exchange.send_json({"token_ids": tokens}, headers=answer_headers(parsed.unknown))

    @Endpoint(
        path="/v1/completions/render",
        method="POST",
        dialect=OPENAI,
        operation_id="renderCompletion",
        summary="Tokens of prompts",
        description=f"The tokens of each prompt of `/v1/completions`. {_FOR_ROUTERS}",
        body=OpenAiCompletionRequest,
        responses=answered("The tokens.", [{"token_ids": [504, 3575]}]),
        errors=MODEL_ERRORS,
    )
    async def render(self, exchange: Exchange) -> None:
        """`POST /v1/completions/render`."""
        parsed = await exchange.read(OpenAiCompletionRequest)
        request = parsed.value
        async with self._services.on_demand.use(request.model) as used:
            rendered = []
            for index in range(len(request.prompt)):
                choice = Choice(used.engine, request, index, 0, SamplingParams())
                await choice.prepare()
                prompt = choice.prompt
                tokens = await used.engine.tokenize(prompt) if isinstance(prompt, str) else prompt
                rendered.append({"token_ids": tokens})
        await exchange.send_json(rendered, headers=answer_headers(parsed.unknown))

    async def _plan(self, used: UsedModel, request: ChatRequest) -> TurnPlan:
        may_bring_template = self._services.settings.request_chat_template
        conversation = conversation_of(request, may_bring_template=may_bring_template)
        return await self._services.generation.plan(used, conversation, chat_params(request), is_stream=False)
