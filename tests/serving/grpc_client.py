"""A gRPC client as others make it: its code is generated from the `.proto` when the tests run."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grpc

PROTO = Path(__file__).parents[2] / "python" / "llmserve" / "server" / "apis" / "grpc" / "llmserver.proto"
TIMEOUT_S = 120


@cache
def generated() -> tuple[Any, Any]:
    """Modules of the messages and of the stub, in protobuf's common pool."""
    folder = tempfile.mkdtemp(prefix="llmserve-stub-")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO.parent}"]
    command += [f"--python_out={folder}", f"--grpc_python_out={folder}", PROTO.name]
    subprocess.run(command, check=True)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("llmserver_pb2"), importlib.import_module("llmserver_pb2_grpc")
    finally:
        sys.path.remove(folder)


@dataclass(frozen=True)
class Failure:
    """A status that is not OK."""

    code: grpc.StatusCode
    details: str
    trailer: Mapping[str, str]


class GrpcClient:
    """A channel with a stub, for one model."""

    def __init__(self, channel: grpc.Channel, model: object) -> None:
        self.channel = channel
        self.pb, stubs = generated()
        self.stub = stubs.LLMServerStub(channel)
        self._model = str(model)

    def call(
        self, *, metadata: Sequence[tuple[str, str]] = (), timeout: float = TIMEOUT_S, **fields: Any
    ) -> Any:
        """A running `Predict`."""
        request = self.pb.PredictRequest(**{"model": self._model, "prompt": "Once upon a time", **fields})
        return self.stub.Predict(request, metadata=metadata, timeout=timeout)

    def stream(self, **fields: Any) -> list[Any]:
        """All messages of a stream."""
        return list(self.call(stream=True, **fields))

    def text(self, **fields: Any) -> str:
        """The whole text of an answer without `stream`."""
        (message,) = self.call(**fields)
        assert (message.token, message.tokens) == (0, 0)
        text: str = message.message.decode()
        return text

    def load(self, path: object, *, metadata: Sequence[tuple[str, str]] = (), **fields: Any) -> Any:
        """A running `LoadModel`."""
        request = self.pb.LoadModelRequest(path=str(path), **fields)
        return self.stub.LoadModel(request, metadata=metadata, timeout=TIMEOUT_S)

    def ping(self, metadata: Sequence[tuple[str, str]] = ()) -> Any:
        """`Ping`."""
        return self.stub.Ping(self.pb.PingRequest(), metadata=metadata, timeout=TIMEOUT_S)


@contextmanager
def connect(port: int, model: object = "", options: Sequence[tuple[str, int]] = ()) -> Iterator[GrpcClient]:
    """A client of a server on loopback."""
    # A connection of its own: gRPC shares those of one process.
    own = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=(*own, *options)) as channel:
        yield GrpcClient(channel, model)


def failure(call: Any) -> Failure:
    """The status of a call that fails: of a running stream, or of a function that waits for an answer."""
    try:
        answer = call() if callable(call) else list(call)
    except grpc.RpcError as error:
        told: Any = error
        return Failure(told.code(), told.details(), dict(told.trailing_metadata() or ()))
    raise AssertionError(f"the call did not fail: {answer}")
