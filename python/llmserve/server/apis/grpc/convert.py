"""Pure functions of the gRPC dialect: events and faults -> wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import grpc
from starlette.types import Scope

from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.grpc import llmserver_pb2 as pb
from llmserve.server.web.error_table import retry_after
from llmserve.server.web.errors import Fault
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.wire_names import in_wire_names
from llmserve.types import Delta

Metadata = tuple[tuple[str, str], ...]

_RETRIABLE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


@dataclass(slots=True)
class TokenMessages:
    """Renders deltas as one message per token, even if a delta has several tokens."""

    num_tokens: int = 0

    def render(self, delta: Delta) -> Iterator[pb.PredictResponse]:
        """The messages of a delta."""
        for token in delta.tokens:
            self.num_tokens += 1
            yield pb.PredictResponse(message=token.bytes, token=token.id, tokens=self.num_tokens)


def whole_answer(text: str) -> pb.PredictResponse:
    """The answer of a request without ``stream``."""
    return pb.PredictResponse(message=text.encode())


def head(ignored: Sequence[str], seed: int | None = None) -> Metadata:
    """The initial metadata of an answer."""
    pairs: list[tuple[str, str]] = []
    if ignored:
        pairs.append(("x-llmserve-ignored", ignored_header(ignored)))
    if seed is not None:
        pairs.append(("x-llmserve-seed", str(seed)))
    return tuple(pairs)


@dataclass(frozen=True, slots=True)
class Status:
    """The end of a call that failed."""

    code: grpc.StatusCode
    details: str
    trailer: Metadata


def status_of(fault: Fault) -> Status:
    """A fault as a gRPC status; ``retry-after`` is in whole seconds."""
    code = grpc.StatusCode[fault.rule.grpc_status_for(fault.error)]
    seconds = retry_after(fault.error, fault.rule) if code in _RETRIABLE else None
    error = in_wire_names(fault.error, CompletionRequest)
    details = fault.message if error is fault.error else str(error)
    return Status(code, details, () if seconds is None else (("retry-after", seconds),))


def scope_of(metadata: Sequence[tuple[str, str | bytes]], peer: str) -> Scope:
    """A call as an ASGI scope, as far as headers and both ends of its connection go.

    The client's address stands for the server's, too: a call from a loopback address has come to one.
    """
    headers = [
        (key.encode(), value if isinstance(value, bytes) else value.encode()) for key, value in metadata
    ]
    address = _address(peer)
    return {"headers": headers, "server": address, "client": address}


def _address(peer: str) -> tuple[str, int | None] | None:
    """Host and port of gRPC's ``ipv4:1.2.3.4:5``, ``ipv6:[::1]:5`` (may be percent-encoded), ``unix:...``."""
    kind, _, rest = peer.partition(":")
    if kind == "unix":
        return (rest, None)
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return (host.removeprefix("[").removesuffix("]"), int(port))
