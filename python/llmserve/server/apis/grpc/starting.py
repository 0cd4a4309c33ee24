"""Where the server gets the gRPC listener from; works, with an error, where its packages are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmserve.server.services import Services
from llmserve.server.start_error import StartError

if TYPE_CHECKING:
    from llmserve.server.apis.grpc.server import GrpcServer


CONVENTIONAL_PORT = 50052
"""Where clients of llmserver.proto look for the service."""


class GrpcStartError(StartError):
    """The gRPC listener cannot be opened; the text is for the operator."""


def create_server(services: Services, port: int) -> GrpcServer:
    """The listener for a port, not open yet.

    Raises:
        GrpcStartError: A package is missing.
    """
    try:
        from llmserve.server.apis.grpc.server import GrpcServer
    except ImportError as error:
        raise GrpcStartError(
            f"the gRPC service needs packages that are not installed ({error.name or error})\n"
            "hint: pip install grpcio grpcio-health-checking grpcio-reflection, or unset LLMSERVE_GRPC_PORT"
        ) from error
    return GrpcServer(services, port)
