"""Stored responses: read, follow, cancel and delete them."""

from __future__ import annotations

from starlette.types import Scope

from llmserve.server.api_keys import ApiKeys
from llmserve.server.apis.openai.contents import answered, without_version
from llmserve.server.apis.openai.item_pages import PAGE, page_of
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.stored_parts import items_of
from llmserve.server.apis.openai.stored_response import StoredResponse
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.refusals import FieldError, ResponseEndedError
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.parameters import choice_in_query, in_path, integer_in_query

_ID = in_path("response_id", "The id of a response.")
_STREAM = choice_in_query("stream", ("false", "true"), "Whether to answer with the events of the response.")
_STARTING_AFTER = integer_in_query(
    "starting_after", 0, 2**31 - 1, -1, "With `stream`: the number of the last event that the client has."
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
    parameters=[_ID, *PAGE],
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
        self._find(scope)
        self._store.remove(_ID.of(scope))
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
        await exchange.send_json(page_of(items, scope))

    def _find(self, scope: Scope) -> StoredResponse:
        return self._store.response(owner_of(self._keys, scope), _ID.of(scope))
