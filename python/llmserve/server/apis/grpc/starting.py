"""Where the server gets the gRPC listener from; works, with an error, where the extra is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmserve.server.services import Services
from llmserve.server.start_error import StartError

if TYPE_CHECKING:
    from llmserve.server.apis.grpc.server import GrpcServer


class GrpcStartError(StartError):
    """The gRPC listener cannot be opened; the text is for the operator."""


def create_server(services: Services) -> GrpcServer:
    """The listener that the settings ask for, not open yet.

    Raises:
        GrpcStartError: A package is missing.
    """
    try:
        from llmserve.server.apis.grpc.server import GrpcServer
    except ImportError as error:
        raise GrpcStartError(
            f"the gRPC service needs packages that are not installed ({error.name or error})\n"
            "hint: pip install 'llmserve[grpc]', or unset LLMSERVE_GRPC_PORT"
        ) from error
    return GrpcServer(services)
