"""A running request as an async iterator of its output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType

import anyio.lowlevel

from llmserve import _core
from llmserve._binding.transcript import PIECE, Transcript
from llmserve._binding.wakeups import Mailbox
from llmserve.errors import ContextExceededError
from llmserve.types import Completion, Delta

__all__ = ["Stream"]


class Stream:
    """The output of one request: an async iterator of `Delta`.

    It belongs to the event loop in which it was made. Leaving `async with`, `aclose()`, or dropping the
    stream aborts the request. A fault raises from the iteration, once. A slow reader gets fewer, larger
    deltas; it loses nothing and slows nobody.
    """

    __slots__ = ("_error_was_raised", "_mailbox", "_request", "_transcript")

    def __init__(self, submit: Callable[[_core.Listener], _core.Request]) -> None:
        self._mailbox = Mailbox()
        self._transcript = Transcript()
        self._error_was_raised = False
        # None once closed.
        self._request: _core.Request | None = None
        try:
            self._request = submit(self._mailbox.listener)
        except ContextExceededError as error:
            # It comes out where the engine's own refusals do.
            self._transcript.error = error

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

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        """The next output.

        Raises `GenerationError`, `EngineClosedError` or `EngineDeadError` if the request failed, and its
        refusal (`RequestError`) if it was refused.
        """
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
        raise StopAsyncIteration

    @property
    def completion(self) -> Completion | None:
        """The whole result, after the last delta was received; `None` before, after `aclose()` or a fault."""
        return self._transcript.completion if self._transcript.is_read else None

    def abort(self) -> None:
        """End the request within one step.

        The iteration then ends by itself, and `completion` has the finish reason `cancelled`.
        """
        if self._request is not None:
            self._request.abort()

    async def aclose(self) -> None:
        """Abort the request and end the iteration. Does not wait for the engine."""
        if self._request is not None:
            self._request.abort()
            self._request = None

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _receive(self) -> None:
        if self._request is None:
            raise RuntimeError("the stream is closed")
        # Several tasks may wait for one stream, and one of them takes what all wait for.
        events = await self._mailbox.poll(functools.partial(self._request.take, PIECE))
        if events is not None and self._transcript.add(events) == PIECE:
            # There is more: others may run first.
            await anyio.lowlevel.checkpoint()
