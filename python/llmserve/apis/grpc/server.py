"""The gRPC listener of the process."""

from __future__ import annotations

import grpc

from llmserve.apis.grpc import health, reflection, routes
from llmserve.apis.grpc.guard import Guard
from llmserve.apis.grpc.starting import GrpcStartError
from llmserve.services import Services

END_S = 1.0
"""How long the last statuses have to reach their clients."""

_KEEPALIVE_MS = 60_000
_MIN_CLIENT_PING_MS = 10_000


class GrpcServer:
    """Serves on the settings' gRPC address, in the event loop that starts it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._server: grpc.aio.Server | None = None
        self.address = ""
        """``host:port`` that it listens on, once it does."""

    async def start(self) -> None:
        """Opens the listener.

        Raises:
            GrpcStartError: The address cannot be had.
        """
        settings = self._services.settings
        guard = Guard(self._services.lifecycle, settings.api_key, f"/{health.SERVICE}/")
        server = grpc.aio.server(interceptors=(guard,), options=self._options())
        names = (routes.SERVICE, health.SERVICE)
        server.add_generic_rpc_handlers(
            (
                routes.LlmServer(self._services).handler(),
                health.HealthService(self._services, (routes.SERVICE,)).handler(),
                *reflection.handlers(names),
            )
        )
        host = settings.grpc_host
        shown = f"[{host}]" if ":" in host else host
        try:
            port = server.add_insecure_port(f"{shown}:{settings.grpc_port}")
        except RuntimeError as error:
            raise GrpcStartError(
                f"the gRPC service cannot listen on {shown}:{settings.grpc_port}: the port is taken, or the "
                "address is not this machine's\nhint: LLMSERVE_GRPC_PORT takes another port"
            ) from error
        await server.start()
        self._server = server
        self.address = f"{shown}:{port}"

    async def stop(self) -> None:
        """Closes the listener. Running calls should have been aborted; what is left is cancelled."""
        if self._server is not None:
            await self._server.stop(END_S)
            self._server = None

    def _options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.max_receive_message_length", self._services.settings.max_body_bytes),
            # Else two servers share a port, each with half of the calls.
            ("grpc.so_reuseport", 0),
            # A client whose machine has gone is noticed, and its call ends.
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", _MIN_CLIENT_PING_MS),
            ("grpc.keepalive_permit_without_calls", 1),
        ]
