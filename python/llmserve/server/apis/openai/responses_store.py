"""The responses that clients may continue, read, cancel and delete."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from llmserve.server.apis.openai.responses_output import ResponseOutput, error_frame
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.stored_parts import Part, StoredConversation
from llmserve.server.refusals import (
    CallCancelledError,
    FieldError,
    UnknownConversationError,
    UnknownPreviousResponseError,
    UnknownResponseError,
)


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


class Kept(Protocol):
    """A response or a conversation."""

    owner: bytes

    @property
    def num_bytes(self) -> int:
        """What it takes beside its items."""

    def abandon(self) -> None:
        """Ends what runs of it, since nobody can ask for it any more."""


class ResponseStore:
    """Keeps responses and conversations, up to a number and a size in bytes; the oldest ones go first.

    A response is kept as JSON, so its size is known, and a conversation is kept once, however often it is
    continued. Its cells are found by their beginning, like those of any prompt.
    """

    def __init__(self, max_kept: int, max_bytes: int) -> None:
        self._max_kept = max_kept
        self._max_bytes = max_bytes
        self._kept: dict[str, Kept] = {}
        self._part_bytes = 0

    @property
    def is_on(self) -> bool:
        """Whether anything is stored."""
        return self._max_kept > 0 and self._max_bytes > 0

    def part(self, items: Iterable[Mapping[str, Any]]) -> Part:
        """A part of a conversation, which counts for as long as a response has it."""
        part = Part(orjson.dumps(list(items)))
        self._part_bytes += len(part.data)
        weakref.finalize(part, self._release, len(part.data)).atexit = False
        return part

    def _release(self, num_bytes: int) -> None:
        self._part_bytes -= num_bytes

    def keep(self, kept_id: str, kept: Kept) -> None:
        """Stores something, as the newest."""
        self._kept.pop(kept_id, None)
        self._kept[kept_id] = kept
        self._make_room()

    def begin(self, response: StoredResponse, output: ResponseOutput) -> None:
        """Stores a response that runs in the background."""
        response.running = output
        self.keep(output.id, response)

    def end(self, response: StoredResponse, output: ResponseOutput, *, is_kept: bool = True) -> None:
        """Takes in the end of a response, which is stored if it `is_kept`, and not deleted meanwhile."""
        was_begun = response.running is not None
        part = self.part(output.items)
        response.end(output.object(), part)
        continued = response.conversation
        if continued is not None and response.error is None:
            continued.parts = (*continued.parts, response.input[-1], part)
            if self._kept.get(continued.id) is continued:
                self.keep(continued.id, continued)
        if is_kept and not was_begun:
            self.keep(output.id, response)
        else:
            self._make_room()

    def _make_room(self) -> None:
        num_bytes = sum(kept.num_bytes for kept in self._kept.values())
        while self._kept and (
            len(self._kept) > self._max_kept or num_bytes + self._part_bytes > self._max_bytes
        ):
            oldest = self._kept.pop(next(iter(self._kept)))
            num_bytes -= oldest.num_bytes
            oldest.abandon()
            del oldest  # and with it the parts that nothing else has

    def response(self, owner: bytes, response_id: str) -> StoredResponse:
        """A response of an owner.

        Raises:
            UnknownResponseError: There is none.
        """
        found = self._kept.get(response_id)
        if not isinstance(found, StoredResponse) or found.owner != owner:
            raise UnknownResponseError(response_id)
        return found

    def conversation(self, owner: bytes, conversation_id: str) -> StoredConversation:
        """A conversation of an owner.

        Raises:
            UnknownConversationError: There is none.
        """
        found = self._kept.get(conversation_id)
        if not isinstance(found, StoredConversation) or found.owner != owner:
            raise UnknownConversationError(conversation_id)
        return found

    def continued(
        self, owner: bytes, request: ResponsesRequest
    ) -> tuple[StoredConversation | None, tuple[Part, ...]]:
        """The conversation that a request names, and the items that its input continues.

        Raises:
            UnknownPreviousResponseError: There is no such response.
            UnknownConversationError: There is no such conversation.
            FieldError: The response has not ended, or the request names both.
        """
        if (conversation_id := request.conversation_id) is None:
            return None, self.up_to(owner, request.previous_response_id)
        found = self.conversation(owner, conversation_id)
        return found, found.parts

    def up_to(self, owner: bytes, response_id: str | None) -> tuple[Part, ...]:
        """The conversation up to the end of a response; none for `None`.

        Raises:
            UnknownPreviousResponseError: There is none.
            FieldError: It has not ended.
        """
        if response_id is None:
            return ()
        field = "previous_response_id"
        try:
            found = self.response(owner, response_id)
        except UnknownResponseError:
            raise UnknownPreviousResponseError(field, response_id) from None
        if found.output is None:
            raise FieldError(field, "must be that of a response that has ended: this one is in progress")
        return (*found.input, found.output)

    def remove(self, kept_id: str) -> None:
        """Deletes what is stored under an id; a response that is running ends."""
        self._kept.pop(kept_id).abandon()
