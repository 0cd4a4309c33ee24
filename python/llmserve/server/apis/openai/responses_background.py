"""Responses that are generated without a client that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing

from llmserve.server.apis.openai.responses_output import ResponseOutput, frame
from llmserve.server.apis.openai.responses_store import ResponseStore
from llmserve.server.apis.openai.stored_response import StoredResponse
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import CallCancelledError
from llmserve.server.tracing import RequestEnd, RequestHead, Tracing
from llmserve.server.web.request_log import logged

Answering = AbstractAsyncContextManager[ResponseOutput]

_HEAD = RequestHead(name="background /v1/responses", attributes={}, is_remote=False)


class Background:
    """Runs responses as tasks. Each has a place in the engine's queue, which bounds their number."""

    def __init__(self, lifecycle: Lifecycle, tracing: Tracing, store: ResponseStore) -> None:
        self._lifecycle = lifecycle
        self._tracing = tracing
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, answering: Answering, make: Callable[[], StoredResponse]) -> StoredResponse:
        """Begins a response, which is stored once the engine has accepted it.

        Raises what entering `answering` raises.
        """
        begun: asyncio.Future[StoredResponse] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(answering, make, begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(begun)
        except asyncio.CancelledError:
            # The client has left before it knew the response's id.
            task.cancel()
            raise

    async def _run(
        self, answering: Answering, make: Callable[[], StoredResponse], begun: asyncio.Future[StoredResponse]
    ) -> None:
        status = "refused"
        # The server waits for it as for a request, and the log has a line of its own.
        with (
            self._lifecycle.exchange(),
            logged("BACKGROUND", "/v1/responses", lambda: status),
            self._tracing.request(lambda: _HEAD, lambda: _ended(status)),
        ):
            try:
                async with answering as output:
                    stored = make()
                    stored.task = asyncio.current_task()
                    self._store.begin(stored, output)
                    begun.set_result(stored)
                    try:
                        await _generate(stored, output)
                    finally:
                        self._store.end(stored, output)
                        status = output.status
            except Exception as error:
                if begun.done():
                    raise
                begun.set_exception(error)


async def _generate(stored: StoredResponse, output: ResponseOutput) -> None:
    try:
        async with aclosing(output.events()) as events:
            async for event in events:
                stored.add_event(frame(event))
    except asyncio.CancelledError:
        stored.error = CallCancelledError("the response was cancelled")
        output.fail(stored.error)
        raise
    except Exception as error:
        stored.error = error
        output.fail(error)


def _ended(status: str) -> RequestEnd:
    return RequestEnd(
        attributes={"llmserve.response.status": status}, error=status if status == "failed" else ""
    )
