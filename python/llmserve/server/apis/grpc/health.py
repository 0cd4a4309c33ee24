"""The standard health service, ``grpc.health.v1.Health``."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from llmserve.server.apis.grpc.answers import Context
from llmserve.server.services import Services
from llmserve.server.web.tasks import end_tasks

SERVICE = "grpc.health.v1.Health"
METHODS = (f"{SERVICE}/Check", f"{SERVICE}/Watch")
"""Full names."""

_Response = health_pb2.HealthCheckResponse

LOOK_S = 1.0
"""How often a watched server checks whether an engine has died, in seconds: nothing announces it."""


class HealthService:
    """Serving until the server is told to end, unless an engine is dead.

    That is the status of the server (``""``) and of each service.
    """

    def __init__(self, services: Services, names: tuple[str, ...]) -> None:
        self._lifecycle = services.lifecycle
        self._registry = services.registry
        self._names = frozenset({"", *names})

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """The methods, as gRPC's servers take them."""
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(
                self.check, health_pb2.HealthCheckRequest.FromString, _Response.SerializeToString
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                self.watch, health_pb2.HealthCheckRequest.FromString, _Response.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def check(self, request: Any, context: Context[Any, Any]) -> Any:
        """The status now; `NOT_FOUND` for an unknown service."""
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return _Response(status=self._status())

    async def watch(self, request: Any, context: Context[Any, Any]) -> None:
        """The status now and at each change, until the server ends."""
        if request.service not in self._names:
            await context.write(_Response(status=_Response.SERVICE_UNKNOWN))
        shown = None
        while True:
            # The event is taken before the status, so that no change is missed.
            changed = asyncio.create_task(self._lifecycle.next_change.wait())
            try:
                status = self._status()
                if request.service in self._names and status != shown:
                    await context.write(_Response(status=status))
                    shown = status
                if self._lifecycle.is_stopping:
                    return
                await asyncio.wait({changed}, timeout=LOOK_S)
            finally:
                await end_tasks(changed)

    def _status(self) -> Any:
        is_well = self._lifecycle.is_staying and not self._registry.has_dead_engine
        return _Response.SERVING if is_well else _Response.NOT_SERVING
