"""Stored responses: read, follow, cancel and delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.types import Scope

from llmserve.server.api_keys import ApiKeys
from llmserve.server.apis.openai.contents import answered, without_version
from llmserve.server.apis.openai.responses_store import ResponseStore, StoredResponse, items_of
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.refusals import FieldError, ResponseEndedError
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.parameters import Parameter, as_it_is, choice_in_query, in_path, integer_in_query
from llmserve.server.web.schema import shown

_ID = in_path("response_id", "The id of a response.")
_STREAM = choice_in_query("stream", ("false", "true"), "Whether to answer with the events of the response.")
_STARTING_AFTER = integer_in_query(
    "starting_after", 0, 2**31 - 1, -1, "With `stream`: the number of the last event that the client has."
)
_LIMIT = integer_in_query("limit", 1, 100, 20, "How many items to give.")
_ORDER = choice_in_query("order", ("desc", "asc"), "`desc` begins with the last item.")
_AFTER: Parameter[str, None] = Parameter(
    name="after", place="query", doc="The id of the item to begin behind.", read=as_it_is, default=None
)

_UNKNOWN = {404: "No such response is stored for this API key."}
_OBJECT = {"id": "resp_1", "object": "response", "status": "completed", "output": []}

_READ = Endpoint(
    path="/v1/responses/{response_id}",
    method="GET",
    dialect=OPENAI,
    operation_id="readResponse",
    summary="A stored response",
    description=(
        "The response as it is now. With `stream`, the events of one that was made with `background` and "
        "`stream`, as they come."
    ),
    parameters=[_ID, _STREAM, _STARTING_AFTER],
    responses=answered("The response.", _OBJECT, has_stream=True),
    errors={400: "The response has no events.", **_UNKNOWN},
)
_DELETE = Endpoint(
    path="/v1/responses/{response_id}",
    method="DELETE",
    dialect=OPENAI,
    operation_id="deleteResponse",
    summary="Delete a stored response",
    description="One that is running ends. Responses that continue it keep the conversation.",
    parameters=[_ID],
    responses=answered("It is deleted.", {"id": "resp_1", "object": "response", "deleted": True}),
    errors=_UNKNOWN,
)
_CANCEL = Endpoint(
    path="/v1/responses/{response_id}/cancel",
    method="POST",
    dialect=OPENAI,
    operation_id="cancelResponse",
    summary="Cancel a response that runs in the background",
    description="The answer is the response, with its output so far. It may be cancelled twice.",
    parameters=[_ID],
    responses=answered("The response.", {**_OBJECT, "status": "cancelled"}),
    errors={400: "The response has ended, or was not made with `background`.", **_UNKNOWN},
)
_ITEMS = Endpoint(
    path="/v1/responses/{response_id}/input_items",
    method="GET",
    dialect=OPENAI,
    operation_id="listInputItems",
    summary="What a stored response answers",
    description="The items of its input, behind those of the conversation that it continues.",
    parameters=[_ID, _AFTER, _LIMIT, _ORDER],
    responses=answered("A page of items.", {"object": "list", "data": [], "has_more": False}),
    errors={400: "There is no such item.", **_UNKNOWN},
)


class StoredResponsesApi:
    """The routes over the store."""

    def __init__(self, keys: ApiKeys, store: ResponseStore) -> None:
        self._keys = keys
        self._store = store

    @_READ
    @without_version(_READ)
    async def read(self, exchange: Exchange) -> None:
        """`GET /v1/responses/ID`."""
        scope = exchange.request.scope
        found = self._find(scope)
        if _STREAM.of(scope) == "false":
            await exchange.send_bytes(found.object(), "application/json")
            return
        if found.events is None:
            raise FieldError("stream", "needs a response that was made with background and stream")
        await exchange.send_events(found.follow(_STARTING_AFTER.of(scope) + 1), found.render_error)

    @_DELETE
    @without_version(_DELETE)
    async def delete(self, exchange: Exchange) -> None:
        """`DELETE /v1/responses/ID`."""
        scope = exchange.request.scope
        self._store.remove(owner_of(self._keys, scope), _ID.of(scope))
        await exchange.send_json({"id": _ID.of(scope), "object": "response", "deleted": True})

    @_CANCEL
    @without_version(_CANCEL)
    async def cancel(self, exchange: Exchange) -> None:
        """`POST /v1/responses/ID/cancel`."""
        found = self._find(exchange.request.scope)
        if not found.is_background:
            raise ResponseEndedError("synchronous")
        await found.cancel()
        if not found.is_cancelled:
            raise ResponseEndedError("completed")
        await exchange.send_bytes(found.object(), "application/json")

    @_ITEMS
    @without_version(_ITEMS)
    async def list_input_items(self, exchange: Exchange) -> None:
        """`GET /v1/responses/ID/input_items`."""
        scope = exchange.request.scope
        items = await items_of(self._find(scope).input)
        if _ORDER.of(scope) == "desc":
            items.reverse()
        await exchange.send_json(_page(items, _AFTER.of(scope), _LIMIT.of(scope)))

    def _find(self, scope: Scope) -> StoredResponse:
        return self._store.get(owner_of(self._keys, scope), _ID.of(scope))


def _page(items: Sequence[Mapping[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
    begin = 0
    if after is not None:
        found = [index for index, item in enumerate(items) if item["id"] == after]
        if not found:
            raise FieldError("after", f"must be the id of an item, got {shown(after)}")
        begin = found[0] + 1
    page = items[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": begin + limit < len(items),
    }
