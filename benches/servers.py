"""Starts `llmserve serve` and the peer's `llama-server` with the same settings, and ends them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any, Literal

from . import peer
from .harness import BenchError, Setting
from .peer_tools import environment as peer_environment

START_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and how to ask it for a stream of tokens."""

    kind: Literal["llmserve", "llama-server"]
    port: int
    model: Path
    pid: int
    start_s: float

    def completion(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """The request for a greedy stream, as `benches.client` takes it: path and body."""
        if self.kind == "llmserve":
            common = {"model": str(self.model), "prompt": prompt, "stream": True, "temperature": 0}
            return {"path": "/completions", "body": {**common, "max_tokens": max_tokens}}
        body = {"prompt": prompt, "stream": True, "temperature": 0, "n_predict": max_tokens}
        return {"path": "/completion", "body": {**body, "cache_prompt": True, "samplers": ["temperature"]}}


@contextmanager
def llmserve(setting: Setting, sequences: int, cells: int) -> Iterator[Server]:
    """`llmserve serve` with room for `sequences` sequences of `cells` tokens each."""
    port = _free_port()
    options = {
        "port": port,
        "threads": setting.threads,
        "max-sequences": sequences,
        "context-length": cells,
        "kv-cells": cells * sequences,
        "kv-layout": setting.kv_layout,
        "batch-size": setting.batch_size,
        "ubatch-size": setting.batch_size,
        "log-level": "warning",
    }
    command = [sys.executable, "-m", "llmserve", "serve", str(setting.model)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    # The server refuses variables of ours that it does not know.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LLMSERVE_")}
    with _running(command, variables, port, b'"ready"') as (process, start_s):
        yield Server("llmserve", port, setting.model, process.pid, start_s)


@contextmanager
def llama_server(setting: Setting, sequences: int, cells: int) -> Iterator[Server]:
    """`llama-server` with the same room."""
    port = _free_port()
    layout = "--kv-unified" if setting.kv_layout == "unified" else "--no-kv-unified"
    command = [
        peer.program("llama-server"), "-m", str(setting.model), "--host", "127.0.0.1", "--port", str(port),
        "-t", str(setting.threads), "-np", str(sequences), "-c", str(cells * sequences), layout,
        "-b", str(setting.batch_size), "-ub", str(setting.batch_size),
    ]  # fmt: skip
    with _running(command, peer_environment(), port, b'"ok"') as (process, start_s):
        yield Server("llama-server", port, setting.model, process.pid, start_s)


@contextmanager
def _running(
    command: list[str], variables: dict[str, str], port: int, sign: bytes
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    with tempfile.TemporaryFile() as log:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            _await_health(process, port, sign)
            yield process, time.perf_counter() - started
        except BenchError as error:
            log.seek(0)
            words = log.read().decode(errors="replace")[-2000:]
            raise BenchError(f"{error}\nthe server's last words:\n{words}") from error
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_health(process: subprocess.Popen[bytes], port: int, sign: bytes) -> None:
    """Polls `/health` until its body holds `sign`."""
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise BenchError(f"the server ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
                if sign in response.read():
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.02)
    raise BenchError(f"the server was not ready within {START_LIMIT_S:g} s")


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
