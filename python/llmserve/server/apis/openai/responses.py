"""`/v1/responses`: the stateless core."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.constraints import constraint_field, with_constraint
from llmserve.server.apis.openai.contents import GENERATED, GENERATION_ERRORS, answered, without_version
from llmserve.server.apis.openai.for_model import for_model
from llmserve.server.apis.openai.responses_input import conversation_of, response_params
from llmserve.server.apis.openai.responses_items import Event, OutputItems
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.sampling import ignored_stops
from llmserve.server.apis.openai.schema import token_limit
from llmserve.server.apis.openai.turn_output import TurnOutput
from llmserve.server.conversation import Turn, TurnEnd, check_plan
from llmserve.server.error_shapes import openai as errors
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.generation import Run, turns
from llmserve.server.refusals import CallCancelledError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.sse import data_frame

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
        "The stateless core of the Responses API: the whole conversation comes as `input`. Nothing is "
        "stored. A stream has typed events and ends with `response.completed` or `response.incomplete`."
    ),
    body=ResponsesRequest,
    responses=answered(GENERATED, _EXAMPLE, has_stream=True),
    errors=GENERATION_ERRORS,
    parameters=[SESSION],
)


class ResponsesApi:
    """The route over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_RESPONSES
    @without_version(_RESPONSES)
    async def serve(self, exchange: Exchange) -> None:
        """`POST /v1/responses`."""
        parsed = await exchange.read(ResponsesRequest)
        request = parsed.value
        conversation = conversation_of(
            request, may_bring_template=self._services.settings.request_chat_template
        )
        params = await with_constraint(request, response_params(request), request.text.format, "text.format")
        session = SESSION.of(exchange.request.scope)
        headers = answer_headers([*parsed.unknown, *ignored_stops(params)], seed=params.seed)
        async with self._services.on_demand.use(request.model) as used:
            params = await for_model(used, params, request)
            has_parts = request.stream or request.time_limit_s is not None
            plan = await self._services.generation.plan(used, conversation, params, is_stream=has_parts)
            check_plan(plan, constraint_field(request, params))
            call = turns(plan, dialect=errors.DIALECT, model=used.model, session=session)
            async with self._services.generation.run(call) as run:
                response = _Response(request, _head(request, used.entry.id, params), run)
                if request.stream:
                    await exchange.send_events(response.frames(), response.render_error, headers=headers)
                else:
                    await exchange.send_json(await response.whole(), headers=headers)


class _Response:
    """One response."""

    def __init__(self, request: ResponsesRequest, head: dict[str, Any], run: Run[Turn]) -> None:
        self._request = request
        self._head = head
        self._run = run
        self._items = OutputItems(shows_tags=request.reasoning_format == "none")
        self._num_events = 0
        self._end: TurnEnd | None = None

    async def whole(self) -> dict[str, Any]:
        """The response as one object."""
        async with aclosing(self._events()) as events:
            async for _ in events:
                pass
        return self._ended()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The response as events."""
        begun = {**self._head, "status": "in_progress"}
        yield self._frame({"type": "response.created", "response": begun})
        yield self._frame({"type": "response.in_progress", "response": begun})
        async with aclosing(self._events()) as events:
            async for event in events:
                yield self._frame(event)
        response = self._ended()
        yield self._frame({"type": f"response.{response['status']}", "response": response})

    async def _events(self) -> AsyncGenerator[Event, None]:
        turn = TurnOutput(await self._run.output(), self._request)
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                for event in self._items.add(piece):
                    yield event
        end = turn.end
        self._run.check_end(end.finish_reason, CallCancelledError)
        self._end = end
        for event in self._items.close("completed" if end.finish_reason == "stop" else "incomplete"):
            yield event

    def _ended(self) -> dict[str, Any]:
        if (end := self._end) is None:
            raise RuntimeError("the turn has not ended")
        is_whole = end.finish_reason == "stop"
        return {
            **self._head,
            "status": "completed" if is_whole else "incomplete",
            "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
            "output": self._items.items,
            "usage": _usage(end),
        }

    def _frame(self, event: Event) -> bytes:
        data = orjson.dumps({**event, "sequence_number": self._num_events})
        self._num_events += 1
        kind: str = event["type"]
        return b"event: " + kind.encode() + b"\n" + data_frame(data)

    def render_error(self, error: Exception) -> bytes:
        """The last event of a stream that failed."""
        rendered: Any = errors.render(fault_of(error, errors.DIALECT))
        fields = {name: rendered["error"][name] for name in ("code", "message", "param")}
        # Clients raise for `error`, as they do in other streams.
        return self._frame({"type": "error", **fields, **rendered})


def _head(request: ResponsesRequest, model: str, params: SamplingParams) -> dict[str, Any]:
    """The fields that do not change."""
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": token_limit(request),
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": {"effort": request.reasoning.effort, "summary": None},
        "store": False,
        "temperature": params.temperature,
        "text": {"format": request.text.format or {"type": "text"}},
        "tool_choice": request.tool_choice or ("auto" if request.tools else "none"),
        "tools": request.tools,
        "top_p": params.top_p,
        "truncation": "disabled",
        "usage": None,
    }


def _usage(end: TurnEnd) -> dict[str, Any]:
    return {
        "input_tokens": end.usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": end.usage.cached_tokens},
        "output_tokens": end.usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": end.reasoning_tokens},
        "total_tokens": end.usage.total_tokens,
    }
