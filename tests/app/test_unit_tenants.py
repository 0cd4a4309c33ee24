"""Whose a request is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from llmserve import Tenant
from llmserve.server.apis.grpc.guard import Guard
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.settings import Settings, parse_settings
from llmserve.server.trust.tenants import FAIRNESS_ID, TenantRule, current_tenant

KEYS = {"LLMSERVE_API_KEY": "alice-key,bob-key"}


def tenant_of(settings: Settings, **headers: str) -> Tenant:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return TenantRule(settings)({"headers": named})


def test_each_key_is_a_tenant_whose_name_does_not_tell_it() -> None:
    settings = parse_settings(KEYS)
    alice = tenant_of(settings, authorization="Bearer alice-key")
    assert alice == tenant_of(settings, x_api_key="alice-key")
    assert alice != tenant_of(settings, x_api_key="bob-key")
    assert "alice" not in repr(alice)
    assert alice.weight == 1


def test_without_keys_all_are_one_tenant() -> None:
    settings = parse_settings({})
    assert tenant_of(settings, x_api_key="any") == tenant_of(settings) == current_tenant()


def test_a_gateway_names_tenants_if_it_is_trusted() -> None:
    trusting = parse_settings({**KEYS, "LLMSERVE_TRUST_FAIRNESS_ID": "true"})
    header = {FAIRNESS_ID.replace("-", "_"): "team-a"}
    team = tenant_of(trusting, x_api_key="alice-key", **header)
    assert team == tenant_of(trusting, x_api_key="bob-key", **header)
    assert team != tenant_of(trusting, x_api_key="alice-key")
    wary = parse_settings(KEYS)
    assert tenant_of(wary, x_api_key="alice-key", **header) == tenant_of(wary, x_api_key="alice-key")


def test_keys_with_priority_are_valid_and_weigh_more(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("fast-key\n")
    settings = parse_settings({**KEYS, "LLMSERVE_PRIORITY_KEY_FILE": str(file)})
    assert settings.api_key.authorize("fast-key")
    assert settings.api_key.authorize("alice-key")
    assert tenant_of(settings, x_api_key="fast-key").weight == 4
    assert tenant_of(settings, x_api_key="alice-key").weight == 1
    assert "fast-key" not in repr(settings)


def test_a_call_over_grpc_is_served_as_its_tenant() -> None:
    settings = parse_settings(KEYS)

    async def name(request: bytes, context: object) -> bytes:
        return current_tenant().id.encode()

    async def call(port: int, key: str) -> bytes:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            method: Any = channel.unary_unary("/test/name", None, None)
            answer: bytes = await method(b"", metadata=(("x-api-key", key),))
            return answer

    async def main() -> Sequence[bytes]:
        server = grpc.aio.server(interceptors=(Guard(Lifecycle(), settings, "/none/"),))
        handlers = {"name": grpc.unary_unary_rpc_method_handler(name)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await asyncio.gather(*(call(port, key) for key in ("alice-key", "bob-key")))
        finally:
            await server.stop(None)

    expected = [tenant_of(settings, x_api_key=key).id.encode() for key in ("alice-key", "bob-key")]
    assert asyncio.run(main()) == expected
