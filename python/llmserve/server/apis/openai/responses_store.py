"""The responses that clients may continue, read, cancel and delete."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from llmserve.server.apis.openai.responses_output import ResponseOutput, error_frame
from llmserve.server.refusals import (
    CallCancelledError,
    FieldError,
    UnknownPreviousResponseError,
    UnknownResponseError,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """Items of a conversation as JSON. All responses that continue it share them."""

    data: bytes


async def items_of(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The items of all parts, read on another thread: a conversation may be long."""
    return await asyncio.to_thread(lambda: [item for part in parts for item in orjson.loads(part.data)])


@dataclass(slots=True, eq=False, kw_only=True)
class StoredResponse:
    """A response, which may still be running in the background."""

    owner: bytes
    """Whose it is: others do not see it."""
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


class ResponseStore:
    """Keeps so many responses, of so many bytes; the oldest ones go first.

    A response is kept as JSON, so its size is known, and a conversation is kept once, however often it is
    continued. Its cells are found by their beginning, like those of any prompt.
    """

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._responses: dict[str, StoredResponse] = {}
        self._part_bytes = 0

    @property
    def is_on(self) -> bool:
        """Whether any response is stored."""
        return self._max_responses > 0 and self._max_bytes > 0

    def part(self, items: Iterable[Mapping[str, Any]]) -> Part:
        """A part of a conversation, which counts for as long as a response has it."""
        part = Part(orjson.dumps(list(items)))
        self._part_bytes += len(part.data)
        weakref.finalize(part, self._release, len(part.data)).atexit = False
        return part

    def _release(self, num_bytes: int) -> None:
        self._part_bytes -= num_bytes

    def begin(self, response: StoredResponse, output: ResponseOutput) -> None:
        """Stores a response that runs in the background."""
        response.running = output
        self._responses[output.id] = response
        self._make_room()

    def end(self, response: StoredResponse, output: ResponseOutput) -> None:
        """Stores a response that has ended, unless it has run in the background and was deleted meanwhile."""
        was_begun = response.running is not None
        response.end(output.object(), self.part(output.items))
        if not was_begun:
            self._responses[output.id] = response
        self._make_room()

    def _make_room(self) -> None:
        num_bytes = sum(response.num_bytes for response in self._responses.values())
        while self._responses and (
            len(self._responses) > self._max_responses or num_bytes + self._part_bytes > self._max_bytes
        ):
            oldest = self._responses.pop(next(iter(self._responses)))
            num_bytes -= oldest.num_bytes
            oldest.abandon()
            del oldest  # and with it the parts that no other response has

    def get(self, owner: bytes, response_id: str) -> StoredResponse:
        """A response of an owner.

        Raises:
            UnknownResponseError: There is none.
        """
        found = self._responses.get(response_id)
        if found is None or found.owner != owner:
            raise UnknownResponseError(response_id)
        return found

    def conversation(self, owner: bytes, response_id: str | None) -> tuple[Part, ...]:
        """The conversation up to the end of a response; none for `None`.

        Raises:
            UnknownPreviousResponseError: There is none.
            FieldError: It has not ended.
        """
        if response_id is None:
            return ()
        field = "previous_response_id"
        try:
            found = self.get(owner, response_id)
        except UnknownResponseError:
            raise UnknownPreviousResponseError(field, response_id) from None
        if found.output is None:
            raise FieldError(field, "must be that of a response that has ended: this one is in progress")
        return (*found.input, found.output)

    def remove(self, owner: bytes, response_id: str) -> None:
        """Deletes a response; one that is running ends.

        Raises:
            UnknownResponseError: There is none.
        """
        self.get(owner, response_id).abandon()
        del self._responses[response_id]
