"""Counts calls: an interceptor before all others, so that refused ones count too."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc

from llmserve.server.apis.grpc.answers import Context
from llmserve.server.apis.grpc.trace import call_end, call_head
from llmserve.server.rpc_counters import RpcCounters
from llmserve.server.tracing import Tracing
from llmserve.server.web.request_log import logged

Continue = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]

_OTHER = "other"
_PROBES = "grpc."
"""How the names of gRPC's own services begin: health and reflection."""

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class CallCounting(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Feeds `RpcCounters`. Methods that are not in `known` share one label, so labels are bounded."""

    def __init__(self, counters: RpcCounters, tracing: Tracing, known: Iterable[str]) -> None:
        self._counters = counters
        self._tracing = tracing
        self._known = frozenset(known)

    async def intercept_service(
        self, continuation: Continue, handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of a call, which counts it."""
        name = handler_call_details.method.removeprefix("/")
        label = name if name in self._known else _OTHER
        handler = await continuation(handler_call_details)
        if handler is None:  # gRPC refuses it
            self._counters.requests[_OTHER, grpc.StatusCode.UNIMPLEMENTED.name] += 1
            return None
        kind = next(kind for kind in _KINDS if getattr(handler, kind) is not None)
        return handler._replace(**{kind: self._counted(getattr(handler, kind), label)})

    def _counted(self, serve: Callable[..., Any], label: str) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(serve):

            async def generate(request: Any, context: Context[Any, Any]) -> AsyncGenerator[Any, None]:
                messages: AsyncIterator[Any] = serve(request, context)
                with self._call(label, context):
                    async for message in messages:
                        yield message

            return generate

        async def answer(request: Any, context: Context[Any, Any]) -> Any:
            with self._call(label, context):
                return await serve(request, context)

        return answer

    @contextmanager
    def _call(self, label: str, context: Context[Any, Any]) -> Iterator[None]:
        counters, started = self._counters, time.monotonic()
        status = grpc.StatusCode.UNKNOWN.name
        counters.num_open += 1
        # Whoever probes a server does so every few seconds.
        with ExitStack() as reports:
            if not label.startswith(_PROBES):
                metadata = tuple(context.invocation_metadata() or ())
                reports.enter_context(logged("gRPC", label, lambda: status))
                reports.enter_context(
                    self._tracing.request(lambda: call_head(label, metadata), lambda: call_end(status))
                )
            try:
                yield
                status = _name(context.code())
            except grpc.aio.AbortError:
                status = _name(context.code())
                raise
            except (asyncio.CancelledError, GeneratorExit):
                status = grpc.StatusCode.CANCELLED.name
                raise
            finally:
                counters.num_open -= 1
                counters.requests[label, status] += 1
                counters.seconds[label] += time.monotonic() - started


def _name(code: object) -> str:
    """The name of a status as the context has it: a member, its number, or nothing if it is OK."""
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((member.name for member in grpc.StatusCode if member.value[0] == (code or 0)), "UNKNOWN")
