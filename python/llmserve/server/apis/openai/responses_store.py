"""The responses that clients may continue, read, cancel and delete."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import orjson

from llmserve.server.apis.openai.responses_output import ResponseOutput
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.stored_parts import Part, StoredConversation
from llmserve.server.apis.openai.stored_response import StoredResponse
from llmserve.server.refusals import (
    FieldError,
    UnknownConversationError,
    UnknownPreviousResponseError,
    UnknownResponseError,
)


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
