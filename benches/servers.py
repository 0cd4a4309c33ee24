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
        return _native(prompt, max_tokens)

    def exactly(self, prompt: str, tokens: int) -> dict[str, Any]:
        """The request for `tokens` tokens, also where the model would end: the same for both servers."""
        return _native(prompt, tokens, ignore_eos=True, return_tokens=True)


def _native(prompt: str, max_tokens: int, **more: bool) -> dict[str, Any]:
    body = {"prompt": prompt, "stream": True, "temperature": 0, "n_predict": max_tokens, **more}
    return {"path": "/completion", "body": {**body, "cache_prompt": True, "samplers": ["temperature"]}}


@contextmanager
def llmserve(setting: Setting, sequences: int, cells: int) -> Iterator[Server]:
    """`llmserve serve` with room for `sequences` sequences of `cells` tokens each."""
    options = {
        "threads": setting.threads,
        "max-sequences": sequences,
        "context-length": cells,
        "kv-cells": cells * sequences,
        "kv-layout": setting.kv_layout,
        "batch-size": setting.batch_size,
        "ubatch-size": setting.batch_size,
    }
    with _llmserve(setting, [f"--{name}={value}" for name, value in options.items()]) as server:
        yield server


@contextmanager
def llmserve_by_default(setting: Setting) -> Iterator[Server]:
    """`llmserve serve` without options, as `make serve` starts it."""
    with _llmserve(setting, []) as server:
        yield server


@contextmanager
def _llmserve(setting: Setting, options: list[str]) -> Iterator[Server]:
    port = _free_port()
    program = [sys.executable, "-m", "llmserve", "serve", str(setting.model)]
    command = [*program, f"--port={port}", "--log-level=warning", *options]
    # The server refuses variables of ours that it does not know.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LLMSERVE_")}
    # An installation has its bytecode.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with _running(command, variables, port, b'"ready"') as (process, start_s):
        yield Server("llmserve", port, setting.model, process.pid, start_s)


@contextmanager
def llama_server(setting: Setting, sequences: int, cells: int) -> Iterator[Server]:
    """`llama-server` with the same room."""
    layout = "--kv-unified" if setting.kv_layout == "unified" else "--no-kv-unified"
    options = [
        "-t", str(setting.threads), "-np", str(sequences), "-c", str(cells * sequences), layout,
        "-b", str(setting.batch_size), "-ub", str(setting.batch_size),
    ]  # fmt: skip
    with _llama_server(setting, options) as server:
        yield server


@contextmanager
def llama_server_by_default(setting: Setting) -> Iterator[Server]:
    """`llama-server` without options."""
    with _llama_server(setting, []) as server:
        yield server


@contextmanager
def _llama_server(setting: Setting, options: list[str]) -> Iterator[Server]:
    port = _free_port()
    where = ["-m", str(setting.model), "--host", "127.0.0.1", "--port", str(port)]
    command = [peer.program("llama-server"), *where, *options]
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
        time.sleep(0.01)
    raise BenchError(f"the server was not ready within {START_LIMIT_S:g} s")


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
