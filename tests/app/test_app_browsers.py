"""Hosts, origins and CORS on loopback (DNS rebinding, pages that post to local ports)."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving import ServerProcess, get, post, serve_with_uvicorn

pytestmark = pytest.mark.model


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:{port}", "[::1]:{port}", "a.localhost"]
)
def test_loopback_names_pass(server: ServerProcess, host: str) -> None:
    assert get(server.port, "/health", headers={"Host": host.format(port=server.port)}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8082", "192.0.2.1", ""])
def test_foreign_hosts_are_403(server: ServerProcess, host: str) -> None:
    answer = get(server.port, "/health", headers={"Host": host})
    assert answer.status == 403
    assert "Host" in answer.json["error"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil", "http://[x", ""]
)
def test_foreign_origins_are_403(server: ServerProcess, origin: str, tmp_path: Path) -> None:
    answer = post(server.port, "/models/load", {"path": str(tmp_path)}, headers={"Origin": origin})
    assert answer.status == 403
    assert "Origin" in answer.json["error"]
    assert answer.header("access-control-allow-origin") is None


def test_the_servers_own_pages_pass(server: ServerProcess) -> None:
    headers = {"Host": f"localhost:{server.port}", "Origin": f"http://localhost:{server.port}"}
    assert post(server.port, "/completions", {}, headers=headers).json == {"error": "model is required"}


def test_cors_is_closed_unless_it_is_opened(server: ServerProcess, tmp_path: Path) -> None:
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert get(server.port, "/completions", method="OPTIONS", headers=preflight).status == 403
    with serve_with_uvicorn(tmp_path, env={"LLMSERVE_CORS_ORIGINS": "https://a.example"}) as opened:
        opened.wait_until_listening()
        answer = get(opened.port, "/completions", method="OPTIONS", headers=preflight)
        assert answer.status == 200
        assert answer.header("access-control-allow-origin") == "https://a.example"
        # Errors can be read by the page as well.
        answer = post(opened.port, "/completions", {}, headers={"Origin": "https://a.example"})
        assert answer.status == 400
        assert answer.header("access-control-allow-origin") == "https://a.example"
        assert "X-Request-ID" in (answer.header("access-control-expose-headers") or "")
        answer = post(opened.port, "/completions", {}, headers={"Origin": "https://b.example"})
        assert answer.status == 403
