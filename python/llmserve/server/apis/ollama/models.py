"""Models in use, by Ollama's names and for as long as Ollama's clients ask for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from llmserve.server.apis.ollama import names
from llmserve.server.apis.ollama.keeping import Keeping
from llmserve.server.models import CatalogueEntry, Model, UsedModel, release
from llmserve.server.models.on_demand import UsedEmbedder
from llmserve.server.services import Services


class OllamaModels:
    """The models over the shared services; one for all routes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.keeping = Keeping(services.registry)

    async def find(self, name: str) -> CatalogueEntry:
        """The model of a name. Raises `UnknownModelError`."""
        return await names.find(self._services.catalogue, name)

    @asynccontextmanager
    async def use(self, name: str, keep_s: float | None) -> AsyncGenerator[UsedModel, None]:
        """A model that generates, under the rules and refusals of `OnDemand.use`."""
        entry = await self.find(name)
        try:
            async with self._services.on_demand.use(entry.id) as used:
                yield used
        finally:
            self._used(entry, keep_s)

    @asynccontextmanager
    async def use_embedder(self, name: str, keep_s: float | None) -> AsyncGenerator[UsedEmbedder, None]:
        """An embedding model, under the rules and refusals of `OnDemand.use`."""
        entry = await self.find(name)
        try:
            async with self._services.on_demand.use_embedder(entry.id) as used:
                yield used
        finally:
            self._used(entry, keep_s)

    async def unload(self, name: str) -> None:
        """Unloads a model of any kind; for one that is not loaded, it does nothing.

        Raises what `find` and `release` raise.
        """
        model = self.loaded(await self.find(name))
        await release(self._services.registry, [] if model is None else [model])

    def loaded(self, entry: CatalogueEntry) -> Model | None:
        """The model in the registry, in whatever state."""
        return self._services.registry.find(entry.path, entry.config)

    def _used(self, entry: CatalogueEntry, keep_s: float | None) -> None:
        model = self.loaded(entry)
        if model is not None and model.is_usable:
            self.keeping.after_use(model, keep_s)
