"""Real servers in processes of their own, and a client that sees the bytes as they come."""

from serving.client import Answer, RawStream, events, get, post, read_metrics, wait_until
from serving.llamatik import Llamatik
from serving.process import ServerProcess, free_port, serve, serve_with_small_buffers, serve_with_uvicorn

__all__ = [
    "Answer",
    "Llamatik",
    "RawStream",
    "ServerProcess",
    "events",
    "free_port",
    "get",
    "post",
    "read_metrics",
    "serve",
    "serve_with_small_buffers",
    "serve_with_uvicorn",
    "wait_until",
]
