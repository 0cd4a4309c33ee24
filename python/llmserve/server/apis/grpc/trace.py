"""A gRPC call as OpenTelemetry's conventions for RPC servers describe it."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from llmserve.server.tracing import RequestEnd, RequestHead

_SERVER_ERRORS = frozenset(
    code.name
    for code in (
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    )
)
"""The statuses that are a server's fault, as the conventions have it."""


def call_head(method: str, metadata: Sequence[tuple[str, str | bytes]]) -> RequestHead:
    """What is known when a call has come; `method` has the service's full name."""
    return RequestHead(
        name=method,
        attributes={"rpc.system.name": "grpc", "rpc.method": method},
        headers={key: [value] for key, value in metadata if isinstance(value, str)},
    )


def call_end(status: str) -> RequestEnd:
    """What is known when its status has been sent."""
    return RequestEnd(
        attributes={"rpc.response.status_code": status},
        error=status if status in _SERVER_ERRORS else "",
    )
