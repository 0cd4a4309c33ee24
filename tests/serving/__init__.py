"""Servers, in this process and in others, and a client that sees the bytes as they come."""

from serving.client import Answer, RawStream, events, get, post, read_metrics, wait_until, wait_until_reset
from serving.in_process import serve_folder, serve_in_process
from serving.llamatik import Llamatik
from serving.process import ServerProcess, free_port, serve, serve_with_small_buffers, serve_with_uvicorn
from serving.server import Server

__all__ = [
    "Answer",
    "Llamatik",
    "RawStream",
    "Server",
    "ServerProcess",
    "events",
    "free_port",
    "get",
    "post",
    "read_metrics",
    "serve",
    "serve_folder",
    "serve_in_process",
    "serve_with_small_buffers",
    "serve_with_uvicorn",
    "wait_until",
    "wait_until_reset",
]
