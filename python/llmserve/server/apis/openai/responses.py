"""`POST /v1/responses`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.constraints import constraint_field, with_constraint
from llmserve.server.apis.openai.contents import GENERATED, GENERATION_ERRORS, answered, without_version
from llmserve.server.apis.openai.for_model import for_model
from llmserve.server.apis.openai.responses_background import Background
from llmserve.server.apis.openai.responses_input import conversation_of, response_params, stored_items
from llmserve.server.apis.openai.responses_output import ResponseOutput, head
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.sampling import ignored_stops
from llmserve.server.apis.openai.stored_parts import Part, StoredConversation, items_of
from llmserve.server.apis.openai.stored_response import StoredResponse
from llmserve.server.conversation import Conversation, check_plan
from llmserve.server.error_shapes import openai as errors
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.generation import turns
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION

_PART = {"type": "output_text", "text": "Paris.", "annotations": []}
_ITEM = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [_PART]}
_EXAMPLE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1767225600,
    "model": "SmolLM2-135M-Instruct.Q4_1",
    "status": "completed",
    "output": [_ITEM],
    "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
}

_RESPONSES = Endpoint(
    path="/v1/responses",
    method="POST",
    dialect=OPENAI,
    operation_id="createResponse",
    summary="Answer a conversation (responses)",
    description=(
        "The conversation is `input`, behind that of `previous_response_id` if there is one. The response is "
        "stored in memory unless `store` is false. A stream has typed events and ends with "
        "`response.completed` or `response.incomplete`."
    ),
    body=ResponsesRequest,
    responses=answered(GENERATED, _EXAMPLE, has_stream=True),
    errors=GENERATION_ERRORS,
    parameters=[SESSION],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request that was read."""

    request: ResponsesRequest
    conversation: Conversation
    params: SamplingParams
    session: str | None
    owner: bytes
    continued: StoredConversation | None
    """The conversation that it names."""
    previous: tuple[Part, ...]
    """What it continues."""


class ResponsesApi:
    """The route over the shared services."""

    def __init__(self, services: Services, store: ResponseStore) -> None:
        self._services = services
        self._store = store
        self._background = Background(services.lifecycle, services.tracing, store)

    @_RESPONSES
    @without_version(_RESPONSES)
    async def serve(self, exchange: Exchange) -> None:
        """`POST /v1/responses`."""
        parsed = await exchange.read(ResponsesRequest)
        request = parsed.value
        asked = await self._ask(exchange, request)
        headers = answer_headers([*parsed.unknown, *ignored_stops(asked.params)], seed=asked.params.seed)
        if request.background:
            stored = await self._background.start(self._answering(asked), lambda: self._stored(asked))
            if request.stream:
                await exchange.send_events(stored.follow(0), stored.render_error, headers=headers)
            else:
                await exchange.send_bytes(stored.object(), "application/json", headers=headers)
            return
        async with self._answering(asked) as output:
            if request.stream:
                await exchange.send_events(output.frames(), output.render_error, headers=headers)
            else:
                await exchange.send_json(await output.whole(), headers=headers)

    async def _ask(self, exchange: Exchange, request: ResponsesRequest) -> _Asked:
        """The request, with what it continues.

        Raises:
            FieldError: A field is wrong.
            UnknownPreviousResponseError: The response that it continues is not stored.
        """
        if request.background and not self._is_stored(request):
            reason = "store is false" if self._store.is_on else "this server stores none"
            raise FieldError("background", f"needs a stored response: {reason}")
        owner = owner_of(self._services.settings.api_key, exchange.request.scope)
        continued, previous = self._store.continued(owner, request)
        conversation = conversation_of(
            request,
            await items_of(previous),
            may_bring_template=self._services.settings.request_chat_template,
        )
        params = await with_constraint(request, response_params(request), request.text.format, "text.format")
        return _Asked(
            request=request,
            conversation=conversation,
            params=params,
            session=SESSION.of(exchange.request.scope),
            owner=owner,
            continued=continued,
            previous=previous,
        )

    def _is_stored(self, request: ResponsesRequest) -> bool:
        return request.store and self._store.is_on

    def _stored(self, asked: _Asked) -> StoredResponse:
        """What is stored of a request."""
        request = asked.request
        return StoredResponse(
            owner=asked.owner,
            conversation=asked.continued,
            input=(*asked.previous, self._store.part(stored_items(request.input))),
            is_background=request.background,
            events=[] if request.background and request.stream else None,
        )

    @asynccontextmanager
    async def _answering(self, asked: _Asked) -> AsyncGenerator[ResponseOutput, None]:
        """The response, accepted by the engine and stored when it ends, unless it runs in the background."""
        request = asked.request
        async with self._services.on_demand.use(request.model) as used:
            params = await for_model(used, asked.params, request)
            has_parts = request.stream or request.background or request.time_limit_s is not None
            plan = await self._services.generation.plan(used, asked.conversation, params, is_stream=has_parts)
            check_plan(plan, constraint_field(request, params))
            call = turns(plan, dialect=errors.DIALECT, model=used.model, session=asked.session)
            async with self._services.generation.run(call) as run:
                is_stored = self._is_stored(request)
                shown = head(request, used.entry.id, params, is_stored=is_stored)
                output = ResponseOutput(request, shown, run)
                if (is_stored or asked.continued is not None) and not request.background:
                    output.on_end = lambda: self._store.end(self._stored(asked), output, is_kept=is_stored)
                yield output
