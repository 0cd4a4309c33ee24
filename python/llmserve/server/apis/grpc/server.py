"""The gRPC listener of the process."""

from __future__ import annotations

import socket

import grpc

from llmserve.server.apis.grpc import health, reflection, routes
from llmserve.server.apis.grpc.counting import CallCounting
from llmserve.server.apis.grpc.guard import Guard
from llmserve.server.apis.grpc.starting import GrpcStartError
from llmserve.server.services import Services

END_S = 1.0
"""How long the last statuses have to reach their clients."""

_METHODS = (*routes.METHODS, *health.METHODS, *reflection.METHODS)

_KEEPALIVE_MS = 60_000
_MIN_CLIENT_PING_MS = 10_000


class GrpcServer:
    """Serves on the settings' gRPC host, in the event loop that starts it."""

    def __init__(self, services: Services, port: int) -> None:
        """Port 0 is any that is free."""
        self._services = services
        self._port = port
        self._server: grpc.aio.Server | None = None
        self.address = ""
        """``host:port`` of the listener, once it is open."""

    async def start(self) -> None:
        """Opens the listener.

        Raises:
            GrpcStartError: The address is not available.
        """
        settings = self._services.settings
        guard = Guard(self._services.lifecycle, settings, f"/{health.SERVICE}/")
        counting = CallCounting(self._services.rpc_counters, self._services.tracing, _METHODS)
        server = grpc.aio.server(interceptors=(counting, guard), options=self._options())
        names = (routes.SERVICE, health.SERVICE)
        server.add_generic_rpc_handlers(
            (
                routes.LlmServer(self._services).handler(),
                health.HealthService(self._services, (routes.SERVICE,)).handler(),
                *reflection.handlers(names),
            )
        )
        host, port = settings.grpc_host, self._port
        shown = f"[{host}]" if ":" in host else host
        try:
            _check_free(host, port)
            port = server.add_insecure_port(f"{shown}:{port}")
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise GrpcStartError(
                f"the gRPC service cannot listen on {shown}:{port}: {reason}\n"
                "hint: set LLMSERVE_GRPC_HOST and LLMSERVE_GRPC_PORT to choose where it listens"
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
            # Otherwise two servers could share a port, each with half of the calls.
            ("grpc.so_reuseport", 0),
            # A client whose machine has gone is noticed, and its call ends.
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", _MIN_CLIENT_PING_MS),
            ("grpc.keepalive_permit_without_calls", 1),
        ]


def _check_free(host: str, port: int) -> None:
    """Binds the address and releases it: gRPC would write its own message about a failure to standard error.

    Raises:
        OSError: No address of the host is available.
    """
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(address)
            except OSError as error:
                failure = error
            else:
                return
    if failure is not None:
        raise failure
