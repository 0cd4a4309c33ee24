"""`/v1/responses`: the stateless core."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import orjson

from llmserve.server.apis.openai import answers, errors
from llmserve.server.apis.openai.chat import check_plan
from llmserve.server.apis.openai.contents import GENERATED, responses_with, without_version
from llmserve.server.apis.openai.ends import check_end
from llmserve.server.apis.openai.errors import OPENAI
from llmserve.server.apis.openai.responses_input import conversation_of, response_params
from llmserve.server.apis.openai.responses_items import Event, OutputItems
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.running import running_turns
from llmserve.server.conversation import Turn, TurnEnd, TurnPlan, plan_turn
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.session_names import header_session
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
    responses=responses_with(GENERATED, _EXAMPLE, has_stream=True),
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
        conversation, params = conversation_of(request), response_params(request)
        session = header_session(exchange.request.scope)
        headers = answers.headers(params.seed, parsed.unknown)
        async with self._services.on_demand.use(request.model) as used:
            plan = replace(await plan_turn(used.engine, conversation, params), at_end=not request.stream)
            check_plan(plan, "text.format")
            async with running_turns(self._services, used, [plan], session) as (turn,):
                run = _Run(self._services.lifecycle, request, used.entry.id, plan, turn)
                if request.stream:
                    await exchange.send_events(run.frames(), run.render_error, headers=headers)
                else:
                    await exchange.send_json(await run.answer(), headers=headers)


class _Run:
    """One response."""

    def __init__(
        self, lifecycle: Lifecycle, request: ResponsesRequest, model: str, plan: TurnPlan, turn: Turn
    ) -> None:
        self._lifecycle = lifecycle
        self._turn = turn
        self._items = OutputItems()
        self._head = _head(request, model, plan)
        self._num_events = 0

    async def answer(self) -> dict[str, Any]:
        """The whole response."""
        async with aclosing(self._events()) as events:
            async for _ in events:
                pass
        return self._ended(self._turn.end)

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The response as events."""
        begun = {**self._head, "status": "in_progress"}
        yield self._frame({"type": "response.created", "response": begun})
        yield self._frame({"type": "response.in_progress", "response": begun})
        async with aclosing(self._events()) as events:
            async for event in events:
                yield self._frame(event)
        response = self._ended(self._turn.end)
        yield self._frame({"type": f"response.{response['status']}", "response": response})

    async def _events(self) -> AsyncGenerator[Event, None]:
        async with aclosing(self._turn.pieces()) as pieces:
            async for piece in pieces:
                for event in self._items.add(piece):
                    yield event
        end = self._turn.end
        check_end(self._lifecycle, end.finish_reason)
        for event in self._items.close("completed" if end.finish_reason == "stop" else "incomplete"):
            yield event

    def _ended(self, end: TurnEnd) -> dict[str, Any]:
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


def _head(request: ResponsesRequest, model: str, plan: TurnPlan) -> dict[str, Any]:
    """What does not change."""
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": {"effort": request.reasoning.effort, "summary": None},
        "store": False,
        "temperature": request.temperature,
        "text": {"format": request.text.format or {"type": "text"}},
        "tool_choice": request.tool_choice or ("auto" if request.tools else "none"),
        "tools": request.tools,
        "top_p": request.top_p,
        "truncation": "disabled",
        "usage": None,
    }


def _usage(end: TurnEnd) -> dict[str, Any]:
    return {
        "input_tokens": end.prompt_tokens,
        "input_tokens_details": {"cached_tokens": end.cached_tokens},
        "output_tokens": end.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": end.reasoning_tokens},
        "total_tokens": end.prompt_tokens + end.completion_tokens,
    }
