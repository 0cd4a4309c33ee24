"""What is kept of responses, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from llmserve.server.apis.openai.responses_output import ResponseOutput
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.stored_parts import Part, StoredConversation, items_of
from llmserve.server.apis.openai.stored_response import StoredResponse
from llmserve.server.refusals import (
    FieldError,
    UnknownConversationError,
    UnknownPreviousResponseError,
    UnknownResponseError,
)

ME, OTHER = b"me", b"other"
SIZE = 1000
TEXT = "x" * SIZE


class Output:
    """What the store asks of a `ResponseOutput`."""

    def __init__(self, response_id: str) -> None:
        self.id = response_id
        self.items: list[dict[str, Any]] = [{"id": f"of {response_id}"}]

    def object(self) -> dict[str, Any]:
        return {"id": self.id}


def keep(
    store: ResponseStore, response_id: str, *, previous: str | None = None, text: str = TEXT
) -> StoredResponse:
    own = store.part([{"text": text}])
    response = StoredResponse(owner=ME, input=(*store.up_to(ME, previous), own))
    store.end(response, cast("ResponseOutput", Output(response_id)))
    return response


def kept(store: ResponseStore, *ids: str) -> list[str]:
    found = []
    for response_id in ids:
        try:
            store.response(ME, response_id)
        except UnknownResponseError:
            continue
        found.append(response_id)
    return found


def ids_of(store: ResponseStore, response_id: str) -> list[str | None]:
    items = asyncio.run(items_of(store.up_to(ME, response_id)))
    return [item.get("id") for item in items]


def test_the_oldest_response_makes_way() -> None:
    store = ResponseStore(2, 10**6)
    for response_id in "abc":
        keep(store, response_id)
    assert kept(store, "a", "b", "c") == ["b", "c"]


def test_so_many_bytes_are_kept() -> None:
    store = ResponseStore(100, 3 * SIZE)
    for response_id in "abcd":
        keep(store, response_id)
    assert kept(store, *"abcd") == ["c", "d"]
    keep(store, "e", text=TEXT * 4)
    assert kept(store, *"abcde") == []
    # Nothing is left that would count.
    keep(store, "f")
    assert kept(store, "f") == ["f"]


def test_a_conversation_is_kept_once() -> None:
    store = ResponseStore(100, 10 * SIZE)
    previous = None
    for number in range(8):
        keep(store, str(number), previous=previous)
        previous = str(number)
    assert len(kept(store, *map(str, range(8)))) == 8
    assert len(ids_of(store, "7")) == 16


def test_a_conversation_outlives_the_responses_that_it_continues() -> None:
    store = ResponseStore(2, 10**6)
    keep(store, "a")
    keep(store, "b", previous="a")
    keep(store, "c", previous="b")
    assert kept(store, "a", "b") == ["b"]
    store.remove("b")
    assert ids_of(store, "c") == [None, "of a", None, "of b", None, "of c"]


def test_responses_are_their_owners() -> None:
    store = ResponseStore(2, 10**6)
    keep(store, "a")
    with pytest.raises(UnknownResponseError, match=r"^Response with id 'a' not found\.$"):
        store.response(OTHER, "a")
    with pytest.raises(UnknownPreviousResponseError, match=r"^Previous response with id 'a' not found\.$"):
        store.up_to(OTHER, "a")
    assert kept(store, "a") == ["a"]


def test_a_response_that_runs_cannot_be_continued() -> None:
    store = ResponseStore(2, 10**6)
    running = StoredResponse(owner=ME, input=(Part(b"[]"),))
    store.begin(running, cast("ResponseOutput", Output("a")))
    assert running.object() == b'{"id":"a"}'
    with pytest.raises(FieldError, match="has ended"):
        store.up_to(ME, "a")


def test_a_response_that_was_deleted_while_it_ran_stays_deleted() -> None:
    store = ResponseStore(2, 10**6)
    running, output = StoredResponse(owner=ME, input=()), cast("ResponseOutput", Output("a"))
    store.begin(running, output)
    store.remove("a")
    store.end(running, output)
    assert kept(store, "a") == []


def test_a_conversation_takes_what_continues_it_and_stays_while_it_is_used() -> None:
    store = ResponseStore(2, 10**6)
    conversation = StoredConversation(owner=ME)
    store.keep(conversation.id, conversation)
    for response_id in "abc":
        own = store.part([{"id": f"to {response_id}"}])
        response = StoredResponse(owner=ME, conversation=conversation, input=(*conversation.parts, own))
        store.end(response, cast("ResponseOutput", Output(response_id)))
    assert store.conversation(ME, conversation.id) is conversation
    assert kept(store, "a", "b", "c") == ["c"]
    items = asyncio.run(items_of(conversation.parts))
    assert [item["id"] for item in items] == ["to a", "of a", "to b", "of b", "to c", "of c"]
    with pytest.raises(UnknownConversationError):
        store.conversation(OTHER, conversation.id)
    with pytest.raises(UnknownResponseError):
        store.response(ME, conversation.id)
