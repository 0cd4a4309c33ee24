"""Refuses calls without a key, and new ones while the server drains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from llmserve.server.apis.grpc.answers import Context, abort
from llmserve.server.apis.grpc.convert import scope_of
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import Refusal, ServerDrainingError
from llmserve.server.settings import Settings
from llmserve.server.trust.keys import authorize
from llmserve.server.trust.tenants import TenantRule, serve_as

Continue = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Stands before every method but those whose names begin with ``always_open``."""

    def __init__(self, lifecycle: Lifecycle, settings: Settings, always_open: str) -> None:
        self._lifecycle = lifecycle
        self._keys = settings.api_key
        self._tenant_of = TenantRule(settings)
        self._always_open = always_open

    async def intercept_service(
        self, continuation: Continue, handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of a call, or one that refuses it."""
        if not handler_call_details.method.startswith(self._always_open):
            try:
                self._check(handler_call_details)
            except Refusal as error:
                return _refusing(error)
        return await continuation(handler_call_details)

    def _check(self, details: grpc.HandlerCallDetails) -> None:
        scope = scope_of(tuple(details.invocation_metadata or ()), "")
        authorize(self._keys, scope)
        if not self._lifecycle.is_serving:
            raise ServerDrainingError
        # The task is that of the call.
        serve_as(self._tenant_of(scope))


def _refusing(error: Refusal) -> Any:
    async def refuse(requests: object, context: Context[Any, Any]) -> None:
        await abort(context, error)

    # One kind of handler for all methods: this one waits for no message.
    return grpc.stream_stream_rpc_method_handler(refuse)
