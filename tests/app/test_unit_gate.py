"""What every request passes, and what endpoints declare of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.types import Message

from llmserve.server.apis.unsupported import routes as unsupported
from llmserve.server.application import Application
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.services import Services
from llmserve.server.settings import parse_settings
from llmserve.server.web.endpoint import Endpoint, Route, Serve
from llmserve.server.web.errors import PLAIN
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.gate import Gate


async def answer(exchange: Exchange) -> None:
    await exchange.send_json({"path": exchange.request.path_params})


def gate_of(services: Services, *routes: Route) -> Gate:
    return Gate(services.settings, services.lifecycle, services.http_counters, services.tracing, routes)


def ask(
    endpoint: Endpoint,
    method: str = "GET",
    path: str = "/",
    *,
    settings: dict[str, str] | None = None,
    client: str = "127.0.0.1",
    is_draining: bool = False,
    serve: Serve = answer,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    async def main() -> httpx.Response:
        services = Services.create(parse_settings(settings or {}))
        if is_draining:
            services.lifecycle.drain()
        gate = gate_of(services, Route(endpoint, serve))
        transport = httpx.ASGITransport(gate, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082") as asking:
            return await asking.request(method, path, headers=headers)

    return asyncio.run(main())


def endpoint(path: str = "/", method: str = "GET", **declared: Any) -> Endpoint:
    return Endpoint(path=path, method=method, **{"dialect": PLAIN, **declared})


@pytest.mark.parametrize(("is_probe", "status"), [(True, 200), (False, 403)])
def test_probes_answer_under_any_host(is_probe: bool, status: int) -> None:
    assert ask(endpoint(is_probe=is_probe), headers={"Host": "evil.example"}).status_code == status


@pytest.mark.parametrize(("is_probe", "status"), [(True, 200), (False, 503)])
def test_probes_answer_while_the_server_drains(is_probe: bool, status: int) -> None:
    assert ask(endpoint(is_probe=is_probe), is_draining=True).status_code == status


@pytest.mark.parametrize(
    ("access", "client", "status"),
    [
        ("key", "127.0.0.1", 401),
        ("local", "127.0.0.1", 200),
        ("local", "192.0.2.1", 401),
        ("open", "192.0.2.1", 200),
    ],
)
def test_who_needs_a_key(access: str, client: str, status: int) -> None:
    settings = {"LLMSERVE_API_KEY": "k"}
    assert ask(endpoint(access=access), settings=settings, client=client).status_code == status
    assert (
        ask(endpoint(access=access), settings=settings, client=client, headers={"X-API-Key": "k"}).status_code
        == 200
    )
    # What the path has for no method needs no more than the path.
    refused = ask(endpoint(access=access), "DELETE", settings=settings, client=client)
    assert refused.status_code == (405 if status == 200 else 401)


def test_paths_and_methods_that_nothing_serves_are_refused_in_the_nearest_dialect() -> None:
    served = endpoint("/v1/models/{model_id:path}", dialect=OPENAI)
    assert ask(served, path="/v1/models/a/b").json() == {"path": {"model_id": "a/b"}}
    assert ask(served, path="/nothing").json() == {"error": "no such route"}
    assert ask(served, path="/v1/nothing").json()["error"]["code"] == "route_not_found"
    refused = ask(served, "POST", path="/v1/models/a")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert refused.json()["error"]["code"] == "method_not_allowed"
    assert refused.headers["x-request-id"]


def test_a_link_from_another_site_leads_to_pages_only() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(endpoint(), headers=link).status_code == 200
    assert ask(endpoint(), headers={**link, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert ask(endpoint(method="POST"), "POST", headers=link).status_code == 403


def test_a_fault_that_nobody_expected_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(exchange: Exchange) -> None:
        raise RuntimeError("secret")

    failed = ask(endpoint(), serve=fail, headers={"X-Request-ID": "r1"})
    assert (failed.status_code, failed.json()) == (500, {"error": "internal error (request r1)"})
    assert "secret" in caplog.text


@pytest.mark.parametrize("is_stopping", [True, False])
def test_a_stopping_server_that_gives_up_on_a_client_is_no_fault(is_stopping: bool) -> None:
    async def main() -> None:
        services, has_begun = Services.create(parse_settings({})), asyncio.Event()

        async def hang(exchange: Exchange) -> None:
            has_begun.set()
            await asyncio.Event().wait()

        async def unused(*arguments: object) -> Message:
            raise AssertionError

        gate = gate_of(services, Route(endpoint(), hang))
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        serving = asyncio.ensure_future(gate(scope, unused, unused))  # type: ignore[arg-type]
        await has_begun.wait()
        if is_stopping:
            services.lifecycle.stop()
        serving.cancel()
        if is_stopping:
            await serving
        else:
            with pytest.raises(asyncio.CancelledError):
                await serving

    asyncio.run(main())


def test_what_the_server_declares() -> None:
    async def main() -> list[Endpoint]:
        application = Application(parse_settings({}), chains_signals=False)
        return [route.endpoint for route in application.routes]

    served = asyncio.run(main())
    shown = [(found.path, found.method) for found in served]
    assert len(shown) == len(set(shown))
    described = [found.operation_id for found in served if found.operation_id]
    assert len(described) == len(set(described))
    assert {found.path for found in served if found.is_probe} == {
        "/live",
        "/livez",
        "/ready",
        "/readyz",
        "/health",
        "/healthz",
        "/v1/health",
        "/metrics",
    }
    assert {found.path for found in served if found.access == "open"} == {
        "/live",
        "/livez",
        "/ready",
        "/readyz",
        "/health",
        "/healthz",
        "/v1/health",
        "/openapi.json",
        "/",
        "/docs",
        "/page/{file}",
    }
    # A route that is not supported is refused in a shape that its clients can read.
    assert all(route.endpoint.dialect is not PLAIN for route in unsupported.routes(None))  # type: ignore[arg-type]
