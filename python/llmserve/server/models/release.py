"""Releases models that clients loaded."""

from __future__ import annotations

from collections.abc import Iterable

from llmserve.server.models.model import IDLE_PIN, Model
from llmserve.server.models.registry import Registry
from llmserve.server.refusals import ModelKeptError, ModelLoadingError


async def release(registry: Registry, models: Iterable[Model]) -> None:
    """Takes the pin of clients off models, and returns once the memory of those that go is free.

    Raises:
        ModelLoadingError: One is being loaded.
        ModelKeptError: Somebody else keeps one loaded.
    """
    released = list(models)
    for model in released:
        if model.state == "loading":
            raise ModelLoadingError
        registry.unpin(model.path, IDLE_PIN, model.config)
    if any(model.pins for model in released):
        raise ModelKeptError
    await registry.wait_closed()
