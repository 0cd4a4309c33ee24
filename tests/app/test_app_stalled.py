"""Clients that do not read: bounded, cut off, and no burden on others (C107)."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from serving import (
    RawStream,
    get,
    post,
    read_metrics,
    serve_in_process,
    serve_with_small_buffers,
    wait_until,
    wait_until_reset,
)

pytestmark = pytest.mark.model


@pytest.mark.parametrize(("loop", "protocol"), [("uvloop", "httptools"), ("asyncio", "h11")])
def test_readers_that_stop_are_cut_off_while_others_are_served(
    tiny_model: Path, tmp_path: Path, loop: str, protocol: str
) -> None:
    env = {"LLMSERVE_MODEL": str(tiny_model), "LLMSERVE_STALL_S": "1", "LLMSERVE_CONTEXT_LENGTH": "30000"}
    options = ("--loop", loop, "--http", protocol)
    with serve_with_small_buffers(tmp_path, *options, env=env) as server:
        server.wait_until_ready()
        body = {"model": str(tiny_model), "prompt": "sea", "max_tokens": 29_000, "stream": True}
        label = f'{{model="{tiny_model.stem}"}}'
        with ExitStack() as open_streams:
            streams = [
                open_streams.enter_context(RawStream(server.port, "/completions", body, receive_buffer=4096))
                for _ in range(3)
            ]
            small = {**body, "max_tokens": 5, "stream": False}
            assert post(server.port, "/completions", small).status == 200
            wait_until(lambda: read_metrics(server.port)[f"llmserve_requests_running{label}"] == 0)
            done = read_metrics(server.port)
            assert done["llmserve_http_requests_open"] == 1
            assert done[f"llmserve_requests_cancelled_total{label}"] == 3
            # Not the engine alone is freed of them: each would keep a descriptor and its buffers.
            for stream in streams:
                stream.wait_until_reset()
            wait_until(lambda: server.log.count("its client stopped reading") == 3)
            assert "ERROR" not in server.log
            assert post(server.port, "/completions", small).status == 200


def test_a_reader_of_a_large_answer_that_stops_is_cut_off(tiny_model: Path, tmp_path: Path) -> None:
    env = {"LLMSERVE_MODEL": str(tiny_model), "LLMSERVE_STALL_S": "1"}
    with serve_with_small_buffers(tmp_path, env=env) as server:
        server.wait_until_ready()
        body = {"model": tiny_model.stem, "content": "sea " * 300_000}
        assert len(post(server.port, "/tokenize", body).body) > 1_000_000
        with RawStream(server.port, "/tokenize", body, receive_buffer=4096) as stream:
            stream.wait_until_reset()
        server.wait_for_log("its client stopped reading")
        assert "ERROR" not in server.log


@contextmanager
def requests_without_reading(port: int, path: str, number: int) -> Iterator[socket.socket]:
    """A client that sends requests, one right after the other, and reads nothing."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * number)
        yield sock


@pytest.mark.parametrize("protocol", ["httptools", "h11"])
def test_one_that_sends_request_after_request_leaves_nothing_behind(tmp_path: Path, protocol: str) -> None:
    env = {"LLMSERVE_STALL_S": "1", "LLMSERVE_GRACE_S": "0"}
    with serve_with_small_buffers(tmp_path, "--http", protocol, env=env) as server:
        server.wait_for_log("Application startup complete")
        with requests_without_reading(server.port, "/openapi.json", 60) as sock:
            wait_until_reset(sock)
        server.signal(signal.SIGTERM)
        server.wait()
        assert "its client stopped reading" in server.log
        assert "running task" not in server.log
        assert "ERROR" not in server.log


def test_the_system_does_not_take_in_an_answer_that_nobody_reads(tmp_path: Path) -> None:
    with serve_in_process(tmp_path, env={"LLMSERVE_STALL_S": "1"}) as server:
        num_bytes = len(get(server.port, "/openapi.json").body)
        with requests_without_reading(server.port, "/openapi.json", 800_000 // num_bytes) as sock:
            wait_until_reset(sock)
