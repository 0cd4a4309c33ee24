"""Hosts, origins and CORS (DNS rebinding, proxies, pages that call servers of other sites)."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from serving import ServerProcess, get, post, serve, serve_in_process, serve_with_uvicorn, wait_until

pytestmark = pytest.mark.model


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:{port}", "[::1]:{port}", "a.localhost"]
)
def test_loopback_names_pass(server: ServerProcess, host: str) -> None:
    assert get(server.port, "/v1/models", headers={"Host": host.format(port=server.port)}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8082", "192.0.2.1", ""])
def test_foreign_hosts_are_403(server: ServerProcess, host: str) -> None:
    answer = get(server.port, "/v1/models", headers={"Host": host})
    assert answer.status == 403
    assert "LLMSERVE_ALLOWED_HOSTS" in answer.json["error"]["message"]


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_probes_may_use_any_host(server: ServerProcess, path: str) -> None:
    assert get(server.port, path, headers={"Host": "llm.example"}).status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil", "http://[x", ""]
)
def test_foreign_origins_are_403(server: ServerProcess, origin: str, tmp_path: Path) -> None:
    answer = post(server.port, "/models/load", {"path": str(tmp_path)}, headers={"Origin": origin})
    assert answer.status == 403
    assert "LLMSERVE_CORS_ORIGINS" in answer.json["error"]
    assert answer.header("access-control-allow-origin") is None


def test_the_servers_own_pages_pass(server: ServerProcess) -> None:
    headers = {"Host": f"localhost:{server.port}", "Origin": f"http://localhost:{server.port}"}
    assert post(server.port, "/completions", {}, headers=headers).json == {"error": "model is required"}


@pytest.mark.parametrize("path", ["/", "/v1/models", "/health", "/metrics", "/docs"])
def test_what_pages_of_other_sites_embed_is_403(server: ServerProcess, path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert get(server.port, path, headers=headers).status == 403
    assert get(server.port, path, headers={**headers, "Sec-Fetch-Site": "none"}).status == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/models"])
def test_a_link_of_another_site_leads_here(server: ServerProcess, path: str) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert get(server.port, path, headers=link).status == 200
    assert post(server.port, "/completions", {}, headers=link).status == 403


def test_behind_a_proxy_with_tls(tmp_path: Path) -> None:
    env = {"LLMSERVE_ALLOWED_HOSTS": "llm.example,*.corp.example"}
    with serve_in_process(tmp_path, env=env) as proxied:
        # Caddy, Traefik and tunnels keep the Host; nginx sends the address that it connects to.
        for host in ("llm.example", "a.corp.example", f"127.0.0.1:{proxied.port}"):
            assert get(proxied.port, "/v1/models", headers={"Host": host}).status == 200
            page = {"Host": host, "Origin": "https://llm.example", "Sec-Fetch-Site": "same-origin"}
            answer = post(proxied.port, "/completions", {}, headers=page)
            assert answer.json == {"error": "model is required"}
            assert (
                post(proxied.port, "/completions", {}, headers={**page, "Origin": "https://b.example"}).status
                == 403
            )
        assert get(proxied.port, "/v1/models", headers={"Host": "evil.example"}).status == 403


def test_the_option_allows_hosts(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--allowed-hosts", "host.docker.internal") as server:
        server.wait_until_ready()
        headers = {"Host": f"host.docker.internal:{server.port}"}
        assert get(server.port, "/v1/models", headers=headers).status == 200


def test_other_addresses_take_any_host_but_no_foreign_page(tmp_path: Path) -> None:
    with serve_with_uvicorn(tmp_path, "--uds", str(tmp_path / "s")) as server:
        wait_until(lambda: (tmp_path / "s").exists() or server.process.poll() is not None)
        own = {"Host": "llm.example", "Origin": "https://llm.example"}
        assert status_over_unix_socket(tmp_path / "s", own) == 200
        assert status_over_unix_socket(tmp_path / "s", {**own, "Origin": "https://evil.example"}) == 403
        foreign = {"Host": "llm.example", "Sec-Fetch-Site": "cross-site"}
        assert status_over_unix_socket(tmp_path / "s", foreign) == 403


def status_over_unix_socket(path: Path, headers: Mapping[str, str]) -> int:
    """The status of `GET /v1/models`."""
    with socket.socket(socket.AF_UNIX) as sock:
        wait_until(lambda: sock.connect_ex(str(path)) == 0)
        lines = ["GET /v1/models HTTP/1.1", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        with sock.makefile("rb") as answer:
            return int(answer.readline().split()[1])


def test_cors_is_closed_unless_it_is_opened(server: ServerProcess, tmp_path: Path) -> None:
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert get(server.port, "/completions", method="OPTIONS", headers=preflight).status == 403
    with serve_in_process(tmp_path, env={"LLMSERVE_CORS_ORIGINS": "https://a.example"}) as opened:
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


def test_localhost_stands_for_every_port_of_this_machine(tmp_path: Path) -> None:
    with serve_in_process(tmp_path, env={"LLMSERVE_CORS_ORIGINS": "localhost"}) as opened:
        for origin in ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"):
            answer = post(opened.port, "/completions", {}, headers={"Origin": origin})
            assert (answer.status, answer.header("access-control-allow-origin")) == (400, origin)
        for origin in ("http://localhost.example", "https://a.example", "null", "file://localhost"):
            assert post(opened.port, "/completions", {}, headers={"Origin": origin}).status == 403
