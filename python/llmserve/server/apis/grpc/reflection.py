"""The standard reflection service: clients ask the server for its ``.proto``."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio  # type: ignore[attr-defined]

from llmserve.server.apis.grpc import llmserver_pb2

# Both versions have the same messages.
_NAMES = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
METHODS = tuple(f"{name}/ServerReflectionInfo" for name in _NAMES)
"""Full names."""


def handlers(names: tuple[str, ...]) -> tuple[grpc.GenericRpcHandler[Any, Any], ...]:
    """The service under both of its names; it lists the services with ``names`` and itself."""
    pool = DescriptorPool()
    for module in (llmserver_pb2, health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    servicer: Any = aio.ReflectionServicer((*names, _NAMES[0]), pool=pool)  # type: ignore[attr-defined]
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return tuple(
        grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": method}) for name in _NAMES
    )
