"""Routes of the catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from llmserve.server.apis.models import convert, operations
from llmserve.server.apis.models.schema import UnloadAnswer, UnloadRequest
from llmserve.server.models import IDLE_PIN, CatalogueEntry, Model
from llmserve.server.refusals import ModelLoadingError, PathNotAllowedError, UnknownModelError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.schema import dump


class ModelsApi:
    """The catalogue over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def endpoints(self) -> list[Endpoint]:
        """All routes."""
        return [
            operations.list_endpoint(self.list_models),
            operations.bare_list_endpoint(self.list_models),
            operations.read_endpoint(self.read_model),
            operations.unload_endpoint(self.unload_model),
        ]

    async def list_models(self, exchange: Exchange) -> None:
        """`GET /v1/models`."""
        entries = await self._services.catalogue.entries()
        times = await asyncio.to_thread(_changed_at, entries)
        state = self._services.on_demand.state
        kinds = await self._services.on_demand.kinds.of_all(entries)
        default = self._services.registry.default_config
        await exchange.send_json(
            {
                "object": "list",
                "data": [
                    convert.openai_model(entry, created, default)
                    for entry, created in zip(entries, times, strict=True)
                ],
                "models": [
                    convert.sie_model(entry, state(entry), kind)
                    for entry, kind in zip(entries, kinds, strict=True)
                ],
            }
        )

    async def read_model(self, exchange: Exchange) -> None:
        """`GET /v1/models/ID`."""
        entry = await self._services.catalogue.find(exchange.request.path_params["model_id"])
        (created,) = await asyncio.to_thread(_changed_at, (entry,))
        state = self._services.on_demand.state(entry)
        kind = await self._services.on_demand.kinds.of(entry)
        await exchange.send_json(
            convert.whole_model(entry, state, kind, created, self._services.registry.default_config)
        )

    async def unload_model(self, exchange: Exchange) -> None:
        """`POST /models/unload`."""
        parsed = await exchange.read(UnloadRequest)
        registry = self._services.registry
        for model in await self._named(parsed.value.model):
            if model.state == "loading":
                raise ModelLoadingError
            registry.unpin(model.path, IDLE_PIN, model.config)
        await registry.wait_closed()
        headers = {"X-LLMServe-Ignored": ignored_header(parsed.unknown)} if parsed.unknown else {}
        await exchange.send_json(dump(UnloadAnswer()), headers=headers)

    async def _named(self, name: str) -> list[Model]:
        """The models of an id, which is one or none, or of a path.

        Raises:
            UnknownModelError: The text is neither an id nor the path of a loaded model.
        """
        registry = self._services.registry
        try:
            entry = await self._services.catalogue.find(name)
        except UnknownModelError as error:
            try:
                path = self._services.models_folder.resolve(name)
            except PathNotAllowedError:
                raise error from None
            if found := [model for model in registry.models if model.path == path]:
                return found
            raise
        model = registry.find(entry.path, entry.config)
        return [] if model is None else [model]


def _changed_at(entries: Sequence[CatalogueEntry]) -> list[int]:
    """When the models' files changed last; 0 where that is unknown."""
    times = []
    for entry in entries:
        try:
            times.append(int(entry.path.stat().st_mtime))
        except OSError:
            times.append(0)
    return times
