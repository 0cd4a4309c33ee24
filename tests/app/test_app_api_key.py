"""The API key and CORS, of real server processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from serving import Answer, ServerProcess, get, post, serve, serve_in_process, serve_with_uvicorn

KEY = "right-9f86d081884c7d65"
WRONG = "wrong-2c26b46b68ffc68f"
BEARER = {"Authorization": f"Bearer {KEY}"}
ORIGIN = "https://a.example"

ROUTES = [
    ("GET", "/"),
    ("GET", "/v1/models"),
    ("POST", "/models/load"),
    ("POST", "/completions"),
    ("POST", "/v1/generation/init"),
    ("POST", "/v1/images/generations"),
    ("GET", "/nothing"),
]


def ask(port: int, method: str, path: str, headers: dict[str, str]) -> Answer:
    return get(port, path, headers=headers) if method == "GET" else post(port, path, {}, headers=headers)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that wants a key and lets pages of one origin in."""
    env = {"LLMSERVE_API_KEY": f"other,{KEY}", "LLMSERVE_CORS_ORIGINS": ORIGIN, "LLMSERVE_LOG_LEVEL": "debug"}
    with serve_with_uvicorn(tmp_path_factory.mktemp("locked"), "--log-level", "debug", env=env) as server:
        server.wait_until_listening()
        yield server


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_the_key(locked: ServerProcess, method: str, path: str) -> None:
    for headers in ({}, {"X-API-Key": WRONG}, {"Authorization": f"Bearer {WRONG}"}):
        answer = ask(locked.port, method, path, headers)
        assert answer.status == 401
        assert (answer.header("www-authenticate") or "").startswith('Bearer realm="llmserve"')
        is_openai = path.startswith("/v1/") and not path.startswith("/v1/generation")
        assert isinstance(answer.json["error"], dict if is_openai else str)
        assert WRONG not in answer.text
    for headers in ({"X-API-Key": KEY}, BEARER, {"X-API-Key": "other"}):
        assert ask(locked.port, method, path, headers).status != 401


PROBES = ("/health", "/v1/health", "/healthz", "/live", "/livez", "/ready", "/readyz")


def test_every_described_route_wants_the_key(locked: ServerProcess) -> None:
    document = get(locked.port, "/openapi.json", headers=BEARER).json
    paths = document["paths"]
    assert len(paths) > 30
    for path, methods in paths.items():
        for method in methods:
            if path not in (*PROBES, "/metrics"):
                answer = ask(locked.port, method.upper(), path.replace("{", "").replace("}", ""), {})
                assert answer.status == 401, path


@pytest.mark.parametrize(
    "path", [*PROBES, "/docs", "/page/docs.js", "/page/index.html", "/openapi.json", "/metrics"]
)
def test_what_gives_nothing_away_answers_without(locked: ServerProcess, path: str) -> None:
    assert get(locked.port, path).status == 200
    assert get(locked.port, path, method="HEAD").status == 200


def test_a_browser_gets_the_page_without(locked: ServerProcess) -> None:
    answer = get(locked.port, "/", headers={"Accept": "text/html"})
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")


def test_the_document_says_which_routes_want_a_key(locked: ServerProcess) -> None:
    document = get(locked.port, "/openapi.json").json
    OpenAPIV31SpecValidator(document).validate()
    assert document["security"] == [{"bearer": []}, {"header": []}]
    open_paths = [
        path for path, methods in document["paths"].items() if methods.get("get", {}).get("security") == []
    ]
    assert sorted(open_paths) == sorted(PROBES)


def test_metrics_want_the_key_from_clients_that_are_not_local(locked: ServerProcess, tmp_path: Path) -> None:
    proxied = {"X-Forwarded-For": "192.0.2.1"}
    assert get(locked.port, "/metrics", headers=proxied).status == 401
    assert get(locked.port, "/metrics", headers={**proxied, **BEARER}).status == 200
    env = {"LLMSERVE_API_KEY": KEY, "LLMSERVE_METRICS_OPEN": "true"}
    with serve_in_process(tmp_path, env=env) as opened:
        assert get(opened.port, "/metrics", headers=proxied).status == 200
        assert get(opened.port, "/v1/models", headers=proxied).status == 401


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", "/health"), ("POST", "/v1/chat/completions")])
def test_preflights_need_no_key_and_allow_every_header(locked: ServerProcess, method: str, path: str) -> None:
    asked = "authorization, content-type, x-api-key, x-llmserve-session, x-request-id"
    headers = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": asked,
    }
    answer = get(locked.port, path, method="OPTIONS", headers=headers)
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == ORIGIN
    assert method in (answer.header("access-control-allow-methods") or "")
    assert (answer.header("access-control-allow-headers") or "") == asked


def test_pages_can_read_the_refusal(locked: ServerProcess) -> None:
    for headers in ({}, {"Authorization": f"Bearer {WRONG}"}):
        answer = post(locked.port, "/completions", {}, headers={"Origin": ORIGIN, **headers})
        assert answer.status == 401
        assert answer.header("access-control-allow-origin") == ORIGIN
        exposed = answer.header("access-control-expose-headers") or ""
        assert {"WWW-Authenticate", "X-Request-ID", "Retry-After"} <= set(exposed.split(", "))
    answer = post(locked.port, "/completions", {}, headers={"Origin": ORIGIN, **BEARER})
    assert answer.status == 400
    assert answer.header("access-control-allow-origin") == ORIGIN


def test_the_keys_are_shown_nowhere(locked: ServerProcess) -> None:
    shown = [
        get(locked.port, path, headers=BEARER).text
        for path in ("/", "/health", "/metrics", "/openapi.json", "/v1/models")
    ]
    post(locked.port, "/completions", b"{", headers={"X-API-Key": WRONG})
    post(locked.port, "/completions", b"{", headers={"X-API-Key": KEY})
    for text in (*shown, locked.log):
        assert KEY not in text
        assert WRONG not in text


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the system has no /proc")
@pytest.mark.parametrize("arguments", [("--api-key", KEY), (f"--api-key={KEY}",)])
def test_a_key_on_the_command_line_does_not_stay_there(
    tiny_model: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with serve(tmp_path, tiny_model, *arguments, "--log-level", "debug") as server:
        server.wait_until_ready()
        command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes().decode()
        assert str(tiny_model) in command
        assert KEY not in command
        assert get(server.port, "/v1/models").status == 401
        assert get(server.port, "/v1/models", headers=BEARER).status == 200
        server.wait_for_log('curl -N -H "Authorization: Bearer $LLMSERVE_API_KEY"')
        assert KEY not in server.log


def test_an_empty_key_on_the_command_line_does_not_open_the_server(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--api-key", "") as server:
        assert server.wait() == 2
        assert server.log == "llmserve: --api-key must contain at least one key, got none\n"
