"""One message: whole, or as a stream of events."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson

from llmserve.server.apis.anthropic.blocks import ContentBlocks, Event
from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.conversation import Turn, TurnEnd
from llmserve.server.error_shapes.anthropic import DIALECT, render
from llmserve.server.generation import Run, is_context_full
from llmserve.server.models import UsedModel
from llmserve.server.refusals import CallCancelledError
from llmserve.server.web.errors import fault_of
from llmserve.server.web.sse import error_frame, event_frame


class MessageAnswer:
    """The answer to a request, from its running turn."""

    def __init__(self, request: MessagesRequest, used: UsedModel, run: Run[Turn]) -> None:
        self._stops = request.sampling.get("stop", ())
        self._info = used.engine.info
        self._run = run
        omits = request.thinking is not None and request.thinking.display == "omitted"
        self._content = ContentBlocks(omits_thinking=omits)
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": used.entry.id,
        }

    async def whole(self) -> dict[str, Any]:
        """The message as one object."""
        turn = await self._run.output()
        async with aclosing(self._blocks(turn)) as events:
            async for _ in events:
                pass
        return {
            **self._head,
            "content": self._content.blocks,
            **self._stop(turn.end),
            "usage": _usage(turn.end),
        }

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The message as events."""
        async with aclosing(self._events()) as events:
            async for event in events:
                yield event_frame(event["type"], orjson.dumps(event))

    async def _events(self) -> AsyncGenerator[Event, None]:
        turn = await self._run.output()
        begun: Event = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None}
        # What of the prompt was cached is known at the end, and corrected there.
        usage = _counts(await turn.accepted(), cached=0, output=0)
        yield {"type": "message_start", "message": {**begun, "usage": usage}}
        async with aclosing(self._blocks(turn)) as events:
            async for event in events:
                yield event
        yield {"type": "message_delta", "delta": self._stop(turn.end), "usage": _usage(turn.end)}
        yield {"type": "message_stop"}

    async def _blocks(self, turn: Turn) -> AsyncGenerator[Event, None]:
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                for event in self._content.add(piece):
                    yield event
        self._run.check_end(turn.end.finish_reason, CallCancelledError)
        for event in self._content.close():
            yield event

    def _stop(self, end: TurnEnd) -> dict[str, str | None]:
        # A template's own stop strings are no business of the client.
        stop = end.stop if end.stop in self._stops else None
        if end.finish_reason != "stop":
            is_full = is_context_full(end, self._info)
            reason = "model_context_window_exceeded" if is_full else "max_tokens"
        elif end.num_calls:
            reason = "tool_use"
        else:
            reason = "end_turn" if stop is None else "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": stop}


def render_error(error: Exception) -> bytes:
    """The last event of a stream that failed."""
    return error_frame(orjson.dumps(render(fault_of(error, DIALECT))))


def _usage(end: TurnEnd) -> dict[str, Any]:
    counts = end.usage
    return {
        **_counts(counts.prompt_tokens, cached=counts.cached_tokens, output=counts.completion_tokens),
        "output_tokens_details": {"thinking_tokens": end.reasoning_tokens},
    }


def _counts(prompt: int, *, cached: int, output: int) -> dict[str, int]:
    """The three counts of input make up the prompt."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }
