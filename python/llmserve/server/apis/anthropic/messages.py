"""`/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmserve.server.apis.anthropic.answers import MessageAnswer, render_error
from llmserve.server.apis.anthropic.convert import conversation_of, ignored_fields, params_of
from llmserve.server.apis.anthropic.schema import MessagesRequest, TokenCount
from llmserve.server.conversation import check_plan, prompt_tokens
from llmserve.server.error_shapes.anthropic import ANTHROPIC, DIALECT
from llmserve.server.fields.sampling import with_defaults
from llmserve.server.generation import turns
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import wire_name
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.sse import EVENT_STREAM, event_frame

_STREAM = replace(EVENT_STREAM, ping=event_frame("ping", b'{"type":"ping"}'))

_EXAMPLE: Mapping[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "SmolLM2-135M-Instruct.Q4_1",
    "content": [{"type": "text", "text": "Paris."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "cache_read_input_tokens": 0, "output_tokens": 3},
}

_MESSAGE = Content(
    "The message, or a stream of events that ends with `message_stop`, or with `error` if it fails. "
    "`X-LLMServe-Seed` is the seed that was used, `X-LLMServe-Ignored` the fields without effect.",
    {
        "application/json": {"schema": {"type": "object"}, "examples": {"answer": {"value": _EXAMPLE}}},
        "text/event-stream": {"schema": {"type": "string"}},
    },
)

_MODEL_ERRORS: Mapping[int, str] = {
    **MODEL_ERRORS,
    503: "The model is being loaded; see `Retry-After`.",
    529: "The queue is full; see `Retry-After`.",
}


class MessagesApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/v1/messages",
        method="POST",
        dialect=ANTHROPIC,
        operation_id="createMessage",
        summary="Answer a conversation (Anthropic)",
        description=(
            "Generates the assistant's next turn: reasoning, words and tool calls. The inputs of calls "
            "always match the schemas of their tools."
        ),
        body=MessagesRequest,
        responses={200: _MESSAGE},
        errors={
            **_MODEL_ERRORS,
            409: "Another client cancelled the calls of the session.",
        },
        parameters=[SESSION],
    )
    async def create(self, exchange: Exchange) -> None:
        """`POST /v1/messages`."""
        parsed = await exchange.read(MessagesRequest)
        request = parsed.value
        conversation, params = conversation_of(request), params_of(request)
        session = SESSION.of(exchange.request.scope)
        headers = answer_headers([*parsed.unknown, *ignored_fields(params)], seed=params.seed)
        async with self._services.on_demand.use(request.model) as used:
            params = with_defaults(params, used.entry.default_sampling, request.sampling)
            generation = self._services.generation
            plan = await generation.plan(used, conversation, params, is_stream=request.stream)
            check_plan(plan, wire_name(request, "json_schema"))
            call = turns(plan, dialect=DIALECT, model=used.model, session=session)
            async with generation.run(call) as run:
                answer = MessageAnswer(request, used, run)
                if request.stream:
                    frames = answer.frames()
                    await exchange.send_events(frames, render_error, headers=headers, stream=_STREAM)
                else:
                    await exchange.send_json(await answer.whole(), headers=headers)

    @Endpoint(
        path="/v1/messages/count_tokens",
        method="POST",
        dialect=ANTHROPIC,
        operation_id="countMessageTokens",
        summary="Count the tokens of a conversation (Anthropic)",
        description=(
            "The length of the prompt that `/v1/messages` would make of the same body: what there is "
            "`input_tokens` and `cache_read_input_tokens` together."
        ),
        body=MessagesRequest,
        responses={200: Content("The count.", json_of(TokenCount))},
        errors=_MODEL_ERRORS,
    )
    async def count(self, exchange: Exchange) -> None:
        """`POST /v1/messages/count_tokens`."""
        parsed = await exchange.read(MessagesRequest)
        request = parsed.value
        conversation, params = conversation_of(request), params_of(request)
        async with self._services.on_demand.use(request.model) as used:
            plan = await self._services.generation.plan(used, conversation, params, is_stream=False)
            count = len(await prompt_tokens(used.engine, plan))
        await exchange.send_json({"input_tokens": count}, headers=answer_headers(parsed.unknown))
