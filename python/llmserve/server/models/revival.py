"""Loads the models again whose engines have died."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from llmserve.errors import LlmserveError
from llmserve.model_config import ModelConfig
from llmserve.server.models.model import Model
from llmserve.server.models.registry import Registry

logger = logging.getLogger(__name__)

PERIOD_S = 1.0
"""Seconds between two looks at the engines. A look costs microseconds."""
RETRY_S = 10.0
"""Seconds after which a load that has failed is tried again: memory may have become free."""
MAX_LOADS = 3
"""How often a model is loaded again within `WINDOW_S` at most. A file or a request that kills its engine does
so again and again, and whoever runs the server must notice."""
WINDOW_S = 3600.0


class Revival:
    """Watches the engines of the registry.

    The requests of a dead engine have ended with an error. Its model keeps its pins, so that clients find it
    as before. A model that is not loaded again any more stays dead, which `/health` and `/ready` say, until a
    request or a client loads it.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._loads: list[tuple[float, Path, ModelConfig]] = []
        self._failed: set[Model] = set()
        self._given_up: set[Model] = set()

    async def watch(self) -> None:
        """Looks after the engines until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD_S)

    async def look(self) -> None:
        """Loads the models again that need it, one after the other."""
        self._failed.intersection_update(self._registry.models)
        self._given_up.intersection_update(self._registry.models)
        for model in self._registry.models:
            if model in self._given_up or not self._is_lost(model):
                continue
            if self._may_load(model):
                logger.error("the engine of %s has died: the model is loaded again", model.id)
                await self._load(model)
            else:
                logger.error("the engine of %s has died too often: the model stays unloaded", model.id)
                self._given_up.add(model)

    def _is_lost(self, model: Model) -> bool:
        if model in self._failed:
            return time.monotonic() - model.failed_at >= RETRY_S
        return model.is_dead and bool(model.pins)

    def _may_load(self, model: Model) -> bool:
        now = time.monotonic()
        self._loads = [load for load in self._loads if now - load[0] < WINDOW_S]
        # Options contain what cannot be hashed.
        num_loads = sum(load[1:] == (model.path, model.config) for load in self._loads)
        self._loads.append((now, model.path, model.config))
        return num_loads < MAX_LOADS

    async def _load(self, model: Model) -> None:
        try:
            # Any of its pins will do: the new model inherits all.
            with self._registry.load(model.path, min(model.pins), model.config) as ticket:
                await ticket.wait()
        except LlmserveError:  # the registry or the engine has logged it
            failed = self._registry.find(model.path, model.config)
            if failed is not None and failed.failure is not None:
                self._failed.add(failed)
