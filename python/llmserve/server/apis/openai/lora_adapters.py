"""llama-server's `/lora-adapters`."""

from __future__ import annotations

from pathlib import Path

from llmserve.server.apis.openai.contents import LOADED_ERRORS, MODEL_QUERY
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint
from llmserve.server.web.exchange import Exchange


class LoraAdaptersApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/lora-adapters",
        method="GET",
        dialect=OPENAI,
        operation_id="loraAdapters",
        summary="LoRA adapters of a model",
        description="The adapters that the model is loaded with. Only local requests see their folder.",
        responses={
            200: Content(
                "The adapters.",
                {
                    "application/json": {
                        "schema": {"type": "array", "items": {"type": "object"}},
                        "examples": {"answer": {"value": [{"id": 0, "path": "style.gguf", "scale": 1.0}]}},
                    }
                },
            )
        },
        errors=LOADED_ERRORS,
        parameters=[MODEL_QUERY],
    )
    async def adapters(self, exchange: Exchange) -> None:
        """`GET /lora-adapters`."""
        scope = exchange.request.scope
        found = await self._services.on_demand.loaded(MODEL_QUERY.of(scope))
        folder = self._services.models_folder
        await exchange.send_json(
            [
                {"id": index, "path": folder.name_for(Path(adapter.path), scope), "scale": adapter.scale}
                for index, adapter in enumerate(found.entry.config.lora)
            ]
        )
