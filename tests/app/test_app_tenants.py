"""Requests of one API key do not starve those of another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from llmserve.server.application import Application
from llmserve.server.settings import parse_settings

SETTINGS = {
    "LLMSERVE_API_KEY": "flood,newcomer",
    "LLMSERVE_CONTEXT_LENGTH": "512",
    "LLMSERVE_MAX_SEQUENCES": "2",
    "LLMSERVE_THREADS": "1",
    "LLMSERVE_GRPC": "false",
}
NUM_FLOOD = 20
BASE = "http://127.0.0.1:8082"


def test_a_newcomer_is_served_before_the_end_of_a_flood(tiny_model: Path) -> None:
    async def main() -> list[str]:
        application = Application(
            parse_settings({**SETTINGS, "LLMSERVE_MODEL": str(tiny_model)}), chains_signals=False
        )
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
        ended = []

        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8082", timeout=60
        ) as client:

            async def ask(key: str) -> None:
                body = {"prompt": f"Hello {key}", "max_tokens": 200, "ignore_eos": True}
                answer = await client.post("/v1/completions", json=body, headers={"X-API-Key": key})
                assert answer.status_code == 200, answer.text
                ended.append(key)

            try:
                await client.post(
                    "/v1/generation/init",
                    json={"modelPath": str(tiny_model)},
                    headers={"X-API-Key": "flood"},
                )
                (model,) = application.services.registry.models
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(NUM_FLOOD):
                        tasks.create_task(ask("flood"))
                    while model.engine is None or model.engine.stats().num_waiting < NUM_FLOOD - 4:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                    ended.clear()
                    tasks.create_task(ask("newcomer"))
            finally:
                await application.shutdown()
        return ended

    ended = asyncio.run(main())
    # In the order of arrival it would be the last of about 18.
    assert ended.index("newcomer") < NUM_FLOOD // 2
