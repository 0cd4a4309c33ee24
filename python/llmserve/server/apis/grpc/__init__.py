"""The gRPC service beside the HTTP API of llamacpp-server: the same options on another wire.

Needs the extra ``grpc``. Nothing but :mod:`llmserve.server.apis.grpc.starting` may be imported without it.
"""
