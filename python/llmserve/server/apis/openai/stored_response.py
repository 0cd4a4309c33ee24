"""A response that is stored, and may still be running in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from llmserve.server.apis.openai.responses_output import ResponseOutput, error_frame
from llmserve.server.apis.openai.stored_parts import Part, StoredConversation
from llmserve.server.refusals import CallCancelledError


@dataclass(slots=True, eq=False, kw_only=True)
class StoredResponse:
    """A response, which may still be running in the background."""

    owner: bytes
    """Whose it is: others do not see it."""
    conversation: StoredConversation | None = None
    """The conversation under an id of its own that it continues."""
    input: tuple[Part, ...]
    """What it answers, with the whole conversation that it continues."""
    is_background: bool = False
    events: list[bytes] | None = None
    """All of its events, if it is a stream in the background."""
    running: ResponseOutput | None = None
    """The response while it runs in the background."""
    task: asyncio.Task[None] | None = None
    """What runs it."""
    body: bytes = b""
    """The response object, once it has ended."""
    output: Part | None = None
    """Its items, once it has ended."""
    error: Exception | None = None
    """Why it failed."""
    num_bytes: int = 0
    """What it takes beside its conversation."""
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def object(self) -> bytes:
        """The response object as it is now."""
        return self.body if self.running is None else orjson.dumps(self.running.object())

    def add_event(self, event: bytes) -> None:
        """Takes in an event of a stream."""
        if self.events is not None:
            self.events.append(event)
            self.num_bytes += len(event)
            self._tell()

    def end(self, body: Mapping[str, Any], output: Part) -> None:
        """Takes in the object and the items at the end."""
        self.body, self.output = orjson.dumps(body), output
        self.num_bytes += len(self.body)
        self.running, self.task = None, None
        self._tell()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def follow(self, begin: int) -> AsyncGenerator[bytes, None]:
        """Its events from a number on, as they come. Raises why it failed, after the last one."""
        events, position = self.events or [], begin
        while True:
            while position < len(events):
                yield events[position]
                position += 1
            if self.output is not None:
                break
            await self._change.wait()
        if self.error is not None:
            raise self.error

    def render_error(self, error: Exception) -> bytes:
        """The last event of a stream that failed."""
        return error_frame(error, len(self.events or ()))

    @property
    def is_cancelled(self) -> bool:
        """Whether a client has cancelled it."""
        return isinstance(self.error, CallCancelledError)

    async def cancel(self) -> None:
        """Ends it, and waits for that."""
        if (task := self.task) is not None:
            task.cancel()
            await asyncio.wait({task})

    def abandon(self) -> None:
        """Ends it, since nobody can ask for it any more."""
        if self.task is not None:
            self.task.cancel()
