"""A running request as an iterator of its output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Self

from llmserve import _core
from llmserve._binding.awaited import Awaited
from llmserve._binding.blocking import Blocking, run
from llmserve._binding.operations import operation
from llmserve._binding.transcript import PIECE, Transcript
from llmserve._binding.waiting import Waiting
from llmserve.errors import ContextExceededError
from llmserve.types import Completion, Delta

__all__ = ["AnyStream", "Stream", "SyncStream"]


class AnyStream(Waiting):
    """What `Stream` and `SyncStream` have in common."""

    __slots__ = ("__weakref__", "_error_was_raised", "_inbox", "_on_output", "_request", "_transcript")

    def __init__(
        self,
        submit: Callable[[_core.Listener], _core.Request],
        *,
        max_tokens: int | None = None,
        context_length: int = 0,
    ) -> None:
        self._inbox = self._mailbox()
        self._transcript = Transcript(max_tokens, context_length)
        self._error_was_raised = False
        self._on_output: Callable[[], object] | None = None
        # None once closed.
        self._request: _core.Request | None = None
        try:
            self._request = submit(self._inbox.listener)
        except ContextExceededError as error:
            # It is raised where the engine's own refusals are.
            self._transcript.error = error

    @operation
    async def accepted(self) -> int:
        """The number of prompt tokens, once the request has its place in the queue.

        Raises a `RequestError` if the request is refused, and `RuntimeError` if the stream was closed
        before. A request that was aborted before it was accepted counts as accepted.
        """
        transcript = self._transcript
        while transcript.num_prompt_tokens is None:
            if transcript.error is not None:
                raise transcript.error
            if transcript.completion is not None:
                return transcript.completion.usage.prompt_tokens
            await self._receive()
        return transcript.num_prompt_tokens

    @operation
    async def result(self) -> Completion:
        """The whole result, once it is complete; deltas can still be read afterwards.

        Raises the same exceptions as the iteration, and `RuntimeError` if the stream was closed before.
        """
        transcript = self._transcript
        while transcript.completion is None:
            if transcript.error is not None:
                raise transcript.error
            await self._receive()
        return transcript.completion

    @property
    def completion(self) -> Completion | None:
        """The whole result, after the last delta was received; `None` before, once closed, after a fault."""
        return self._transcript.completion if self._transcript.is_read else None

    @property
    def ended(self) -> Completion | None:
        """The whole result as soon as it was received, even if deltas before it have not been read."""
        return self._transcript.completion

    def observe(self, on_output: Callable[[], object]) -> None:
        """Have a function called whenever new tokens are received, before they can be read."""
        self._on_output = on_output

    def abort(self) -> None:
        """End the request within one step.

        The iteration then ends by itself, and `completion` has the finish reason `cancelled`.
        """
        if self._request is not None:
            self._request.abort()

    def _close(self) -> None:
        self.abort()
        self._request = None

    async def _next(self) -> Delta | None:
        """The next output; `None` at the end."""
        transcript = self._transcript
        while self._request is not None:
            if (delta := transcript.next_delta()) is not None:
                return delta
            if transcript.is_over:
                self._request = None
                break
            await self._receive()
        if transcript.error is not None and not self._error_was_raised:
            self._error_was_raised = True
            raise transcript.error
        return None

    async def _receive(self) -> None:
        if self._request is None:
            raise RuntimeError("the stream is closed")
        # Several tasks may wait for one stream, and one of them takes what all wait for.
        events = await self._inbox.poll(functools.partial(self._request.take, PIECE))
        if events is None:
            return
        num_tokens = self._transcript.add(events)
        if num_tokens > 0 and self._on_output is not None:
            self._on_output()
        if num_tokens == PIECE:
            # There is more: others may run first.
            await self._checkpoint()

    def __repr__(self) -> str:
        transcript = self._transcript
        if transcript.completion is not None:
            state = f"finished: {transcript.completion.finish_reason}"
        elif transcript.error is not None:
            state = f"failed: {transcript.error}"
        elif self._request is None:
            state = "closed"
        else:
            state = "waiting" if transcript.num_prompt_tokens is None else "running"
        return f"<{type(self).__name__} {state}>"


class Stream(AnyStream, Awaited):
    """The output of one request: an async iterator of `Delta`.

    It belongs to the event loop in which it was made. Leaving `async with`, `aclose()`, or dropping the
    stream aborts the request. A fault raises from the iteration, once. A slow reader gets fewer, larger
    deltas; it loses nothing and slows nobody.
    """

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        """The next output.

        Raises `GenerationError`, `EngineClosedError` or `EngineDeadError` if the request failed, and its
        refusal (`RequestError`) if it was refused.
        """
        delta = await self._next()
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def aclose(self) -> None:
        """Abort the request and end the iteration. Does not wait for the engine."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()


class SyncStream(AnyStream, Blocking):
    """`Stream` without an event loop: an iterator of `Delta`, for one thread at a time.

    Leaving `with`, `close()`, or dropping it aborts the request.
    """

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delta:
        """The next output; raises the same as that of `Stream`."""
        delta = run(self._next())
        if delta is None:
            raise StopIteration
        return delta

    def close(self) -> None:
        """Abort the request and end the iteration. Does not wait for the engine."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
