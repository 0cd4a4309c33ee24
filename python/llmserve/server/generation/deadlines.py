"""The time limits of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from llmserve.server.refusals import GenerationTimeoutError
from llmserve.stream import Stream
from llmserve.types import Completion, Delta

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A time limit and the field that set it."""

    field: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """The time limits of a call."""

    overall: TimeLimit | None = None
    first_output: TimeLimit | None = None
    between_outputs: TimeLimit | None = None

    @property
    def need_each_output(self) -> bool:
        """Whether a limit concerns single outputs, which must then be seen as they come."""
        return self.first_output is not None or self.between_outputs is not None


NO_LIMITS = TimeLimits()


class Deadlines:
    """Waits for outputs within the limits, which begin when this object is created."""

    def __init__(self, limits: TimeLimits = NO_LIMITS) -> None:
        self.limits = limits
        self._begun = anyio.current_time()
        self._has_output = False

    async def wait(self, get: Callable[[], Awaitable[T]]) -> T:
        """The result of ``get``.

        Raises:
            GenerationTimeoutError: A limit passed first.
        """
        nearest = min(self._dues(), key=lambda due: due[0], default=None)
        if nearest is None:
            return await get()
        due, limit = nearest
        with anyio.CancelScope(deadline=due):
            return await get()
        raise GenerationTimeoutError(limit.field, limit.seconds)

    async def next_output(self, get: Callable[[], Awaitable[T]]) -> T:
        """Like :meth:`wait`, for an output. The limit between two outputs begins when the next is waited
        for: a client that reads slowly does not use it up.
        """
        output = await self.wait(get)
        self._has_output = True
        return output

    def _dues(self) -> list[tuple[float, TimeLimit]]:
        """When each limit passes."""
        limits = self.limits
        dues = []
        if (overall := limits.overall) is not None:
            dues.append((self._begun + overall.seconds, overall))
        if self._has_output:
            if (between := limits.between_outputs) is not None:
                dues.append((anyio.current_time() + between.seconds, between))
        elif (first := limits.first_output) is not None:
            dues.append((self._begun + first.seconds, first))
        return dues


class TimedStream:
    """A stream that is waited for within the limits of its call: waits raise `GenerationTimeoutError`."""

    def __init__(self, stream: Stream, deadlines: Deadlines) -> None:
        self._stream = stream
        self._deadlines = deadlines

    async def accepted(self) -> int:
        """As `Stream.accepted`."""
        return await self._deadlines.wait(self._stream.accepted)

    async def next(self) -> Delta | None:
        """The next output, ``None`` after the last."""
        try:
            return await self._deadlines.next_output(self._stream.__anext__)
        except StopAsyncIteration:
            return None

    async def result(self) -> Completion:
        """As `Stream.result`."""
        return await self._deadlines.wait(self._stream.result)

    def abort(self) -> None:
        """As `Stream.abort`."""
        self._stream.abort()

    @property
    def ended(self) -> Completion | None:
        """The whole output, once it has been received."""
        return self._stream.ended

    def observe(self, on_output: Callable[[], object]) -> None:
        """As `Stream.observe`."""
        self._stream.observe(on_output)

    async def aclose(self) -> None:
        """As `Stream.aclose`."""
        await self._stream.aclose()
