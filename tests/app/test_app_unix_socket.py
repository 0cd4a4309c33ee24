"""Over a UNIX socket a request is local, whatever its Host says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from serving import serve_with_uvicorn, wait_until

pytestmark = pytest.mark.model


def test_models_may_be_loaded_over_a_unix_socket(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serve_with_uvicorn(tmp_path, "--uds", str(path)) as server:
        wait_until(lambda: path.exists() or server.process.poll() is not None)
        body = f'{{"path": "{tiny_model}"}}'.encode()
        with socket.socket(socket.AF_UNIX) as sock:
            wait_until(lambda: sock.connect_ex(str(path)) == 0)
            head = f"POST /models/load HTTP/1.1\r\nHost: any.example\r\nContent-Length: {len(body)}\r\n"
            sock.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
            with sock.makefile("rb") as answer:
                text = answer.read().decode()
        assert text.startswith("HTTP/1.1 200 OK")
        assert "data: [DONE]" in text
