"""What answers of the routes that generate look like, whole and in lines."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from llmserve.server.apis.ollama.outputs import Output
from llmserve.server.apis.ollama.parts import Part, Parts
from llmserve.server.error_shapes.ollama import DIALECT, render
from llmserve.server.web.errors import fault_of
from llmserve.server.web.ndjson import line
from llmserve.types import FinishReason

Shape: TypeAlias = Callable[[Part], dict[str, Any]]
"""How a route shows a part."""
CheckEnd: TypeAlias = Callable[[FinishReason], None]
"""Refuses an output that was cut short."""


@dataclass(slots=True)
class Clock:
    """The times of a request, in nanoseconds."""

    begun: int = field(default_factory=time.perf_counter_ns)
    loaded: int = 0
    """When the model was there."""

    def load_ended(self) -> None:
        """Notes that the model is there."""
        self.loaded = time.perf_counter_ns()

    def durations(self) -> dict[str, int]:
        """The durations up to now."""
        return {
            "total_duration": time.perf_counter_ns() - self.begun,
            "load_duration": self.loaded - self.begun,
        }


def chat_part(part: Part) -> dict[str, Any]:
    """A part of a chat."""
    message: dict[str, Any] = {"role": "assistant", "content": part.text}
    if part.thinking:
        message["thinking"] = part.thinking
    if part.calls:
        message["tool_calls"] = part.calls
    return {"message": message, **_logprobs(part)}


def text_part(part: Part) -> dict[str, Any]:
    """A part of a generated text."""
    thinking = {"thinking": part.thinking} if part.thinking else {}
    return {"response": part.text, **thinking, **_logprobs(part)}


def _logprobs(part: Part) -> dict[str, Any]:
    return {"logprobs": part.logprobs} if part.logprobs else {}


class Answer:
    """The answer to one request."""

    def __init__(self, model: str, shape: Shape, clock: Clock) -> None:
        self._model = model
        self._shape = shape
        self._clock = clock

    async def whole(self, parts: Parts, check_end: CheckEnd) -> dict[str, Any]:
        """The answer as one object."""
        every = Part()
        async with aclosing(parts.read()) as read:
            async for part in read:
                every.add(part)
        return await self._end(every, parts.output, check_end)

    async def lines(
        self, begin: Callable[[], Awaitable[Parts]], check_end: CheckEnd
    ) -> AsyncGenerator[bytes, None]:
        """The answer as lines; ``begin`` gives its parts, once there are any."""
        parts = await begin()
        async with aclosing(parts.read()) as read:
            async for part in read:
                yield line({**self._head(), **self._shape(part), "done": False})
        yield line(await self._end(Part(), parts.output, check_end))

    def without_output(self, reason: str) -> dict[str, Any]:
        """The answer to a request that only loads or unloads the model."""
        return {**self._head(), **self._shape(Part()), "done": True, "done_reason": reason}

    async def _end(self, part: Part, output: Output, check_end: CheckEnd) -> dict[str, Any]:
        end = output.end
        check_end(end.finish_reason)
        return {
            **self._head(),
            **self._shape(part),
            "done": True,
            "done_reason": end.finish_reason,
            **await output.extra(),
            **self._clock.durations(),
            "prompt_eval_count": end.usage.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(end.timings.prefill_s),
            "eval_count": end.usage.completion_tokens,
            "eval_duration": _nanoseconds(end.timings.decode_s),
        }

    def _head(self) -> dict[str, Any]:
        return {"model": self._model, "created_at": timestamp(datetime.now(UTC))}


def timestamp(moment: datetime) -> str:
    """A time as Go writes it (RFC 3339)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def render_error(error: Exception) -> bytes:
    """The last line of a stream that failed."""
    return line(render(fault_of(error, DIALECT)))
