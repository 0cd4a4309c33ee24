"""Conversations under ids of their own, and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from starlette.types import Scope

from llmserve.server.api_keys import ApiKeys
from llmserve.server.apis.openai.contents import answered
from llmserve.server.apis.openai.item_pages import PAGE, list_of, page_of
from llmserve.server.apis.openai.responses_input import check_items, stored_items
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.stored_parts import StoredConversation, items_of
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.fields.refused import MISPLACED
from llmserve.server.refusals import NotSupportedError, UnknownItemError
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.field_kinds import OBJECT, OBJECTS
from llmserve.server.web.fields import Field
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.parameters import in_path

_METADATA = Field("Returned with the conversation.", kind=OBJECT)
_ITEMS = Field("Items as in the input of `/v1/responses`.", kind=OBJECTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRequest:
    """A new conversation."""

    items: Annotated[tuple[dict[str, Any], ...], _ITEMS] = ()
    metadata: Annotated[Mapping[str, Any], _METADATA] = field(default_factory=dict)
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    """Changes a conversation."""

    metadata: Annotated[Mapping[str, Any], _METADATA]
    foreign: ClassVar = MISPLACED


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsRequest:
    """More items of a conversation."""

    items: Annotated[tuple[dict[str, Any], ...], _ITEMS]
    foreign: ClassVar = MISPLACED


_ID = in_path("conversation_id", "The id of a conversation.")
_ITEM_ID = in_path("item_id", "The id of an item.")
_UNKNOWN = {404: "No such conversation is stored for this API key."}
_UNKNOWN_ITEM = {404: "No such conversation is stored for this API key, or it has no such item."}
_OBJECT = {"id": "conv_1", "object": "conversation", "created_at": 1767225600, "metadata": {}}
_PAGE = {"object": "list", "data": [], "has_more": False}

_ALL = Endpoint(
    path="/v1/conversations",
    method="POST",
    dialect=OPENAI,
    operation_id="createConversation",
    summary="A new conversation",
    description="It is stored in memory, like responses, and `conversation` in `/v1/responses` continues it.",
    body=ConversationRequest,
    responses=answered("The conversation.", _OBJECT),
    errors={501: "The server stores nothing."},
)
_ONE = Endpoint(
    path="/v1/conversations/{conversation_id}",
    method="GET",
    dialect=OPENAI,
    operation_id="readConversation",
    summary="A conversation",
    description="The conversation without its items.",
    parameters=[_ID],
    responses=answered("The conversation.", _OBJECT),
    errors=_UNKNOWN,
)
_ITEMS_OF = Endpoint(
    path="/v1/conversations/{conversation_id}/items",
    method="GET",
    dialect=OPENAI,
    operation_id="listConversationItems",
    summary="Items of a conversation",
    description="A page of the items.",
    parameters=[_ID, *PAGE],
    responses=answered("A page of items.", _PAGE),
    errors={400: "There is no such page.", **_UNKNOWN},
)
_ITEM = Endpoint(
    path="/v1/conversations/{conversation_id}/items/{item_id}",
    method="GET",
    dialect=OPENAI,
    operation_id="readConversationItem",
    summary="An item of a conversation",
    description="One item.",
    parameters=[_ID, _ITEM_ID],
    responses=answered("The item.", {"id": "msg_1", "type": "message"}),
    errors=_UNKNOWN_ITEM,
)


class StoredConversationsApi:
    """The routes over the store."""

    def __init__(self, keys: ApiKeys, store: ResponseStore) -> None:
        self._keys = keys
        self._store = store

    @_ALL
    async def create(self, exchange: Exchange) -> None:
        """`POST /v1/conversations`."""
        parsed = await exchange.read(ConversationRequest, may_be_empty=True)
        if not self._store.is_on:
            raise NotSupportedError("this server stores no conversations")
        request = parsed.value
        check_items(request.items, "items")
        made = StoredConversation(
            owner=owner_of(self._keys, exchange.request.scope),
            metadata=request.metadata,
            parts=(self._store.part(stored_items(request.items)),),
        )
        self._store.keep(made.id, made)
        await exchange.send_json(made.object(), headers=answer_headers(parsed.unknown))

    @_ONE
    async def read(self, exchange: Exchange) -> None:
        """`GET /v1/conversations/ID`."""
        await exchange.send_json(self._find(exchange.request.scope).object())

    @replace(
        _ONE,
        method="POST",
        operation_id="updateConversation",
        summary="Change the metadata of a conversation",
        description="The given metadata take the place of those before.",
        body=MetadataRequest,
    )
    async def update(self, exchange: Exchange) -> None:
        """`POST /v1/conversations/ID`."""
        parsed = await exchange.read(MetadataRequest)
        found = self._find(exchange.request.scope)
        found.metadata = parsed.value.metadata
        self._store.keep(found.id, found)
        await exchange.send_json(found.object(), headers=answer_headers(parsed.unknown))

    @replace(
        _ONE,
        method="DELETE",
        operation_id="deleteConversation",
        summary="Delete a conversation",
        description="Responses that have continued it stay.",
        responses=answered("It is deleted.", {**_OBJECT, "object": "conversation.deleted", "deleted": True}),
    )
    async def delete(self, exchange: Exchange) -> None:
        """`DELETE /v1/conversations/ID`."""
        found = self._find(exchange.request.scope)
        self._store.remove(found.id)
        await exchange.send_json({"id": found.id, "object": "conversation.deleted", "deleted": True})

    @_ITEMS_OF
    async def list_items(self, exchange: Exchange) -> None:
        """`GET /v1/conversations/ID/items`."""
        scope = exchange.request.scope
        _, items = await self._items(scope)
        await exchange.send_json(page_of(items, scope))

    @replace(
        _ITEMS_OF,
        method="POST",
        operation_id="addConversationItems",
        summary="Add items to a conversation",
        description="The answer has the items that were added, with their ids.",
        parameters=[_ID],
        body=ItemsRequest,
        errors=_UNKNOWN,
    )
    async def add_items(self, exchange: Exchange) -> None:
        """`POST /v1/conversations/ID/items`."""
        parsed = await exchange.read(ItemsRequest)
        found = self._find(exchange.request.scope)
        check_items(parsed.value.items, "items")
        items = stored_items(parsed.value.items)
        found.parts = (*found.parts, self._store.part(items))
        self._store.keep(found.id, found)
        await exchange.send_json(list_of(items), headers=answer_headers(parsed.unknown))

    @_ITEM
    async def read_item(self, exchange: Exchange) -> None:
        """`GET /v1/conversations/ID/items/ITEM`."""
        scope = exchange.request.scope
        _, items = await self._items(scope)
        await exchange.send_json(items[_place(items, _ITEM_ID.of(scope))])

    @replace(
        _ITEM,
        method="DELETE",
        operation_id="deleteConversationItem",
        summary="Delete an item of a conversation",
        description="The answer is the conversation.",
        responses=answered("The conversation.", _OBJECT),
    )
    async def delete_item(self, exchange: Exchange) -> None:
        """`DELETE /v1/conversations/ID/items/ITEM`."""
        scope = exchange.request.scope
        found, items = await self._items(scope)
        del items[_place(items, _ITEM_ID.of(scope))]
        found.parts = (self._store.part(items),)
        self._store.keep(found.id, found)
        await exchange.send_json(found.object())

    def _find(self, scope: Scope) -> StoredConversation:
        return self._store.conversation(owner_of(self._keys, scope), _ID.of(scope))

    async def _items(self, scope: Scope) -> tuple[StoredConversation, list[dict[str, Any]]]:
        """A conversation and its items as they are now, though others may have changed it meanwhile."""
        while True:
            parts = self._find(scope).parts
            items = await items_of(parts)
            if (found := self._find(scope)).parts is parts:
                return found, items


def _place(items: Sequence[Mapping[str, Any]], item_id: str) -> int:
    for index, item in enumerate(items):
        if item["id"] == item_id:
            return index
    raise UnknownItemError(item_id)
