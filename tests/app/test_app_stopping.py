"""A request that reaches its route while the server already stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message

from llmserve.server.apis.llamacpp.routes import LlamaCppApi
from llmserve.server.refusals import ServerStoppingError
from llmserve.server.services import Services
from llmserve.server.settings import parse_settings
from llmserve.server.web.bodies import Bodies
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.streams import StreamLimits


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_request_that_is_aborted_before_it_is_accepted_is_refused(
    tiny_model: Path, is_stream: bool
) -> None:
    body = {"model": str(tiny_model), "prompt": "sea", "max_tokens": 400, "stream": is_stream}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": orjson.dumps(body), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def main() -> None:
        settings = {"LLMSERVE_CONTEXT_LENGTH": "512", "LLMSERVE_THREADS": "1"}
        services = Services.create(parse_settings(settings))
        with services.registry.load(tiny_model, "test") as ticket:
            await ticket.wait()
        services.lifecycle.stop()
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/completions", "headers": []}
        limits = StreamLimits(ping_s=60, stall_s=60)
        exchange = Exchange(Request(scope, receive), send, limits, Bodies(60, 1 << 20))
        with pytest.raises(ServerStoppingError):
            await LlamaCppApi(services).complete(exchange)
        await services.registry.close()

    asyncio.run(main())
    assert sent == []
