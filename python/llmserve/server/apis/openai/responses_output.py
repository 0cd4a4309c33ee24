"""A response while it is generated: its object, and the events that build it."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import orjson

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.responses_items import Event, OutputItems
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.schema import token_limit
from llmserve.server.apis.openai.turn_output import TurnOutput
from llmserve.server.conversation import Turn, TurnEnd
from llmserve.server.error_shapes import openai as errors
from llmserve.server.generation import Run
from llmserve.server.refusals import CallCancelledError
from llmserve.server.web.errors import fault_of
from llmserve.server.web.sse import data_frame


class ResponseOutput:
    """One response."""

    def __init__(self, request: ResponsesRequest, head: dict[str, Any], run: Run[Turn]) -> None:
        self._request = request
        self._run = run
        self._items = OutputItems(shows_tags=request.reasoning_format == "none")
        self._num_events = 0
        self.on_end: Callable[[], object] = lambda: None
        """Called when the object is whole, before the last event shows it."""
        self._object = {**head, "status": "queued" if request.background else "in_progress"}

    @property
    def id(self) -> str:
        """The response's id."""
        shown: str = self._object["id"]
        return shown

    @property
    def status(self) -> str:
        """The response's status."""
        shown: str = self._object["status"]
        return shown

    @property
    def items(self) -> list[dict[str, Any]]:
        """The output so far."""
        return self._items.items

    def object(self) -> dict[str, Any]:
        """The response object as it is now."""
        return {**self._object, "output": self.items}

    async def whole(self) -> dict[str, Any]:
        """The response object at the end."""
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass
        return self.object()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The response as events of a stream."""
        async with aclosing(self.events()) as events:
            async for event in events:
                yield frame(event)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The response as events. The last one has the whole object."""
        yield self._numbered({"type": "response.created", "response": self.object()})
        if self._request.background:
            yield self._numbered({"type": "response.queued", "response": self.object()})
            await self._run.outputs()
            self._object["status"] = "in_progress"
        yield self._numbered({"type": "response.in_progress", "response": self.object()})
        turn = TurnOutput(await self._run.output(), self._request)
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                for event in self._items.add(piece):
                    yield self._numbered(event)
        end = turn.end
        self._run.check_end(end.finish_reason, CallCancelledError)
        for event in self._items.close("completed" if end.finish_reason == "stop" else "incomplete"):
            yield self._numbered(event)
        self._end(end)
        self.on_end()
        yield self._numbered({"type": f"response.{self._object['status']}", "response": self.object()})

    def _numbered(self, event: Event) -> Event:
        numbered = {**event, "sequence_number": self._num_events}
        self._num_events += 1
        return numbered

    def _end(self, end: TurnEnd) -> None:
        is_whole = end.finish_reason == "stop"
        self._object |= {
            "status": "completed" if is_whole else "incomplete",
            "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
            "usage": _usage(end),
        }

    def fail(self, error: Exception) -> None:
        """Ends the object of a response that failed, or that somebody cancelled."""
        list(self._items.close("incomplete"))
        if isinstance(error, CallCancelledError):
            self._object["status"] = "cancelled"
        else:
            shown = _error(error)["error"]
            self._object |= {
                "status": "failed",
                "error": {"code": "server_error", "message": shown["message"]},
            }

    def render_error(self, error: Exception) -> bytes:
        """The last event of a stream that failed."""
        return error_frame(error, self._num_events)


def frame(event: Event) -> bytes:
    """An event of a stream."""
    kind: str = event["type"]
    return b"event: " + kind.encode() + b"\n" + data_frame(orjson.dumps(event))


def error_frame(error: Exception, number: int) -> bytes:
    """The last event of a stream that failed."""
    rendered = _error(error)
    fields = {name: rendered["error"][name] for name in ("code", "message", "param")}
    # Clients raise for `error`, as they do in other streams.
    return frame({"type": "error", **fields, **rendered, "sequence_number": number})


def _error(error: Exception) -> Any:
    return errors.render(fault_of(error, errors.DIALECT))


def head(request: ResponsesRequest, model: str, params: SamplingParams, *, is_stored: bool) -> dict[str, Any]:
    """The fields that do not change, and those that are set at the end."""
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "background": request.background,
        "conversation": None if request.conversation_id is None else {"id": request.conversation_id},
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": token_limit(request),
        "metadata": request.metadata,
        "model": model,
        "parallel_tool_calls": request.parallel_tool_calls,
        "previous_response_id": request.previous_response_id,
        "reasoning": {"effort": request.reasoning.effort, "summary": None},
        "store": is_stored,
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
