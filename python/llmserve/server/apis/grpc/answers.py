"""What all calls have in common: their id, their place in the lifecycle, their end, and how they write."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
from starlette.types import Scope

from llmserve.server.apis.grpc.convert import Metadata, scope_of, status_of
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.web.errors import fault_of
from llmserve.server.web.headers import header
from llmserve.server.web.request_id import request_id
from llmserve.server.web.writing import ClientStalledError, Writer

logger = logging.getLogger(__name__)

DIALECT = "grpc"

Context = grpc.aio.ServicerContext


@asynccontextmanager
async def answering(context: Context[Any, Any], lifecycle: Lifecycle) -> AsyncGenerator[Scope, None]:
    """Serves one call, given as a scope; an exception becomes its status.

    Its id, from the metadata ``x-request-id`` or a new one, is in the log and in the trailing metadata.
    """
    scope = scope_of(tuple(context.invocation_metadata() or ()), context.peer())
    with request_id(header(scope, b"x-request-id")) as number, lifecycle.exchange():
        trailer = (("x-request-id", number),)
        context.set_trailing_metadata(trailer)
        try:
            yield scope
        except grpc.aio.BaseError:
            raise  # gRPC's own: the client has gone, or the server has been stopped
        except Exception as error:
            await abort(context, error, trailer)


async def abort(context: Context[Any, Any], error: Exception, trailer: Metadata = ()) -> None:
    """Ends a call with the status of an exception.

    Raises:
        grpc.aio.AbortError: Always; it tells gRPC of the end.
    """
    if isinstance(error, ClientStalledError):
        logger.warning("a call was cut off: its client stopped reading")
        await context.abort(grpc.StatusCode.CANCELLED, "cut off: nothing was read for too long", trailer)
    status = status_of(fault_of(error, DIALECT))
    await context.abort(status.code, status.details, (*trailer, *status.trailer))


async def write_all(context: Context[Any, Any], messages: AsyncGenerator[Any, None], stall_s: float) -> None:
    """Sends messages as fast as the client takes them.

    Raises:
        ClientStalledError: It took nothing for ``stall_s``.
    """
    async with Writer(context.write, stall_s) as writer, aclosing(messages):
        async for message in messages:
            await writer.write(message)
