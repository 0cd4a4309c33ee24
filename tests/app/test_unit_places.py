"""Whatever renders a template takes a place among the requests that are being prepared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from llmserve.server.application import Application
from llmserve.server.settings import parse_settings

TURNS = [{"role": "user", "content": "Hi"}]
SETTINGS = {
    "LLMSERVE_CONTEXT_LENGTH": "512",
    "LLMSERVE_MAX_SEQUENCES": "1",
    "LLMSERVE_THREADS": "1",
    "LLMSERVE_MAX_QUEUED_REQUESTS": "2",
}


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Application, httpx.AsyncClient]]:
    """The application in this process, with its model loaded for all dialects."""
    application = Application(parse_settings({**SETTINGS, "LLMSERVE_MODEL": str(path)}), chains_signals=False)
    transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082", timeout=60) as client:
        try:
            begun = await client.post("/v1/generation/init", json={"modelPath": str(path)})
            assert begun.status_code == 200, begun.text
            yield application, client
        finally:
            await application.shutdown()


@pytest.mark.parametrize(
    ("path", "body", "takes_place"),
    [
        ("/v1/generation/model/applyChatTemplate", {"messages": TURNS}, True),
        ("/v1/generation/generateWithContext", {"userPrompt": "Hi", "maxTokens": 1}, True),
        ("/v1/generation/continue", {"prompt": "Hi", "maxTokens": 1}, True),
        ("/v1/chat/completions", {"messages": TURNS, "max_tokens": 1}, True),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 1}, True),
        ("/v1/messages", {"messages": TURNS, "max_tokens": 1}, True),
        ("/v1/messages/count_tokens", {"messages": TURNS}, True),
        ("/v1/generation/generate", {"prompt": "Hi", "maxTokens": 1}, False),
        ("/v1/completions", {"prompt": "Hi", "max_tokens": 1}, False),
    ],
)
def test_a_template_is_rendered_in_a_place(
    tiny_model: Path, path: str, body: dict[str, Any], takes_place: bool
) -> None:
    async def main() -> None:
        async with serving(tiny_model) as (application, client):
            (model,) = application.services.registry.models
            model_id = {} if path.startswith("/v1/generation") else {"model": model.id}
            async with AsyncExitStack() as stack:
                for _ in range(2):
                    stack.enter_context(application.services.generation.admission.place(model))
                full = await client.post(path, json={**model_id, **body})
            free = await client.post(path, json={**model_id, **body})
            assert free.status_code == 200, free.text
            busy = 529 if path.startswith("/v1/messages") else 503
            assert full.status_code == (busy if takes_place else 200), full.text
            if takes_place:
                assert "being prepared" in full.text
                assert full.headers["retry-after"] == "1"

    asyncio.run(main())
