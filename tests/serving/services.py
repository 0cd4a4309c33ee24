"""The server's services, without a server around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from llmserve.server.services import Services
from llmserve.server.settings import parse_settings

SMALL = {"LLMSERVE_CONTEXT_LENGTH": "256", "LLMSERVE_MAX_SEQUENCES": "1", "LLMSERVE_THREADS": "1"}
Scenario = Callable[[Services], Awaitable[None]]


def run(scenario: Scenario, **environ: object) -> None:
    async def main() -> None:
        settings = parse_settings({**SMALL, **{name: str(value) for name, value in environ.items()}})
        services = Services.create(settings)
        try:
            await scenario(services)
        finally:
            await services.on_demand.close()
            await services.registry.close()

    asyncio.run(main())


async def load(services: Services, path: Path, pin: str) -> None:
    with services.registry.load(path, pin) as ticket:
        await ticket.wait()


async def say(services: Services, model_id: str) -> str:
    async with services.on_demand.use(model_id) as used:
        assert used.entry.id == model_id
        return (await used.engine.generate("sea", max_tokens=3, temperature=0)).text
