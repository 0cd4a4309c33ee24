"""The OpenAPI document lists what the server refuses before a handler runs, and what handlers read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from llmserve.server.application import Application
from llmserve.server.settings import Settings, parse_settings
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.session_names import SESSION

KEY = "k"
LOCKED = {"LLMSERVE_API_KEY": KEY}
MAX_BODY_BYTES = 1024


def application(environ: dict[str, str] | None = None, **changes: Any) -> Application:
    settings: Settings = replace(parse_settings(environ or {}), **changes)
    return Application(settings, chains_signals=False)


async def document_of(app: Application) -> dict[str, Any]:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082") as client:
        made: dict[str, Any] = (await client.get("/openapi.json")).json()
        return made


@cache
def document(*, needs_key: bool = False) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        return await document_of(application(LOCKED if needs_key else None))

    return asyncio.run(main())


@cache
def described() -> tuple[Endpoint, ...]:
    async def main() -> tuple[Endpoint, ...]:
        return tuple(route.endpoint for route in application().routes if route.endpoint.operation_id)

    return asyncio.run(main())


def operation(endpoint: Endpoint, *, needs_key: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = document(needs_key=needs_key)["paths"][endpoint.shown_path][
        endpoint.method.lower()
    ]
    return found


async def never() -> AsyncIterator[bytes]:
    """A body that does not arrive."""
    yield b"{"
    await asyncio.Event().wait()


class Servers:
    """Applications that refuse for one reason each."""

    def __init__(self) -> None:
        self.plain = application()
        self.locked = application(LOCKED)
        self.draining = application()
        self.draining.services.lifecycle.drain()
        self.small = application(max_body_bytes=MAX_BODY_BYTES)
        self.full = application(max_bodies_bytes=0)
        self.impatient = application(body_timeout_s=0.01)

    async def refusals(self, endpoint: Endpoint) -> set[int]:
        """The statuses of everything that the gate and the reader of bodies can refuse, asked one by one."""
        path = re.sub(r"\{[^}]*\}", "m", endpoint.shown_path)
        seen: set[int] = set()

        async def ask(app: Application, *, client: str = "127.0.0.1", **request: Any) -> None:
            transport = httpx.ASGITransport(app, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082") as asking:
                seen.add((await asking.request(endpoint.method, path, **request)).status_code)

        await ask(self.plain, headers={"Host": "evil.example"})
        await ask(self.plain, headers={"Origin": "http://evil.example"})
        await ask(self.plain, headers={"Sec-Fetch-Site": "cross-site"})
        await ask(self.locked, client="192.0.2.1")
        await ask(self.locked, headers={"X-API-Key": "wrong"}, client="192.0.2.1")
        if SESSION in endpoint.parameters:
            await ask(self.plain, headers={SESSION.name: "a b"})
        await ask(self.draining)
        if endpoint.body is not None:
            await ask(self.plain, content=b"{")
            await ask(self.plain, content=b"")
            await ask(self.plain, json={"model": 5, "prompt": 5, "sessionId": 5, "path": 5})
            await ask(self.small, content=b" " * (MAX_BODY_BYTES + 1))
            await ask(self.full, content=b"{}")
            await ask(self.impatient, content=never())
        return seen


@cache
def all_refusals() -> dict[str, set[int]]:
    """The statuses by the ids of the operations."""

    async def main() -> dict[str, set[int]]:
        servers = Servers()
        return {endpoint.operation_id: await servers.refusals(endpoint) for endpoint in described()}

    return asyncio.run(main())


@pytest.mark.parametrize("endpoint", described(), ids=lambda endpoint: endpoint.operation_id)
def test_every_refusal_before_the_handler_is_listed(endpoint: Endpoint) -> None:
    seen = all_refusals()[endpoint.operation_id]
    listed = {int(status) for status in operation(endpoint, needs_key=True)["responses"]}
    assert not seen - listed
    # What follows from the endpoint is seen, so that the questions are the right ones.
    expected = {403}
    if endpoint.access != "open":
        expected |= {401}
    if not endpoint.is_probe:
        expected |= {503}
    if endpoint.body is not None:
        expected |= {400, 408, 413, 503}
    assert expected <= seen
    assert endpoint.body is None or endpoint.method != "GET"


def test_a_server_without_keys_lists_no_401() -> None:
    for endpoint in described():
        assert ("401" in operation(endpoint)["responses"]) is False
        assert "security" not in operation(endpoint)
    assert "securitySchemes" not in document()["components"]


def test_security_by_access() -> None:
    assert set(document(needs_key=True)["components"]["securitySchemes"]) == {"bearer", "header"}
    for endpoint in described():
        security = operation(endpoint, needs_key=True).get("security")
        expected: dict[str, Any] = {"key": None, "local": [{"bearer": []}, {"header": []}, {}], "open": []}
        assert security == expected[endpoint.access]


@pytest.mark.parametrize("needs_key", [False, True])
def test_the_document_is_valid(needs_key: bool) -> None:
    OpenAPIV31SpecValidator(document(needs_key=needs_key)).validate()


def test_errors_have_the_shape_of_their_dialect() -> None:
    for endpoint in described():
        refused = operation(endpoint)["responses"]["403"]["content"]["application/json"]["schema"]
        assert refused == {"$ref": f"#/components/schemas/{endpoint.dialect.error.__name__}"}


def test_parameters_are_those_that_handlers_read() -> None:
    shown = {
        (parameter["in"], parameter["name"]): parameter["required"]
        for endpoint in described()
        for parameter in operation(endpoint).get("parameters", ())
    }
    assert shown == {
        ("header", "X-LLMServe-Session"): False,
        ("header", "anthropic-version"): False,
        ("header", "X-SIE-Remote"): False,
        ("header", "X-SIE-MACHINE-PROFILE"): False,
        ("query", "model"): False,
        ("query", "fail_on_no_slot"): False,
        ("query", "action"): False,
        ("path", "id_slot"): True,
        ("query", "stream"): False,
        ("query", "starting_after"): False,
        ("query", "after"): False,
        ("query", "after_id"): False,
        ("query", "before_id"): False,
        ("query", "limit"): False,
        ("query", "order"): False,
        ("path", "response_id"): True,
        ("path", "conversation_id"): True,
        ("path", "item_id"): True,
        ("path", "model"): True,
        ("path", "model_id"): True,
    }
    for endpoint in described():
        in_path = {parameter.name for parameter in endpoint.parameters if parameter.place == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", endpoint.shown_path))


def test_handlers_read_parameters_by_their_declarations_only() -> None:
    apis = Path(__file__).parents[2] / "python" / "llmserve" / "server" / "apis"
    for path in apis.rglob("*.py"):
        if path.parent.name != "grpc":  # whose scopes are made of metadata
            assert not re.search(
                r"query_params|path_params|import header\b|\[\"headers\"\]", path.read_text()
            ), path
