"""Keeps loaded models within a number of bytes: idle ones make room for new loads."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig
from llmserve.server.models.memory import file_bytes, held_bytes
from llmserve.server.models.model import IDLE_PIN, Model
from llmserve.server.models.registry import Registry
from llmserve.server.models.session_moves import SessionMoves

logger = logging.getLogger(__name__)


class MemoryLimit:
    """Makes room for each load, whoever began it.

    A model gives way while nobody uses it and its one pin is `IDLE_PIN`; models that are in use are waited
    for. One that its owner is about to replace by the load stays until then, beyond the limit.
    """

    def __init__(self, registry: Registry, moves: SessionMoves, limit: int) -> None:
        """``limit`` is in bytes, of weights and KV caches together."""
        self._registry = registry
        self._moves = moves
        self._limit = limit
        # The memory that each file's model took when it was last loaded, in bytes.
        self._measured: dict[Path, tuple[ModelConfig, int]] = {}
        registry.before_load = self.make_room
        registry.on_ready.append(self._trim)

    async def make_room(self, model: Model) -> None:
        """Unloads idle models until a model fits beside the others, and waits for those that are in use.

        A model whose weights fit is loaded even if its KV cache will not fit: the size of the cache depends
        on its options and on the free memory.

        Raises:
            LoadError: The model will never fit beside those that stay.
        """
        while True:
            await self._registry.wait_closed()
            others = self._beside(model)
            shares_weights = any(other.path == model.path and other.is_usable for other in others)
            least = 0 if shares_weights else file_bytes(model.path)
            if held_bytes(others) + max(least, self._measured_bytes(model)) <= self._limit:
                return
            if held_bytes(other for other in others if not _gives_way(other)) + least > self._limit:
                raise LoadError(
                    f"the model of {least} bytes does not fit into LLMSERVE_MODEL_MEMORY_BYTES "
                    f"({self._limit}) beside the models that stay loaded",
                    reason="not_enough_memory",
                )
            if (idle := _longest_idle(others)) is not None:
                self._unload(idle)
            elif held_bytes(others) + least <= self._limit:
                return
            else:
                await self._registry.wait_news()

    def _trim(self, loaded: Model) -> None:
        """Unloads idle models while a newly loaded model, or its KV cache, exceeds the limit."""
        self._measured[loaded.path] = loaded.config, held_bytes([loaded])
        while True:
            others = self._beside(loaded)
            held = held_bytes((*others, loaded))
            if held <= self._limit:
                return
            if (idle := _longest_idle(others)) is None:
                logger.warning(
                    "models take %d bytes, more than LLMSERVE_MODEL_MEMORY_BYTES (%d), and all are in use; "
                    "smaller values of context_length and max_sequences shrink the KV caches",
                    held,
                    self._limit,
                )
                return
            self._unload(idle)

    def _measured_bytes(self, model: Model) -> int:
        config, size = self._measured.get(model.path, (None, 0))
        return size if config == model.config else 0

    def _beside(self, model: Model) -> list[Model]:
        """The models that stay or give way, except those that a load of their owner replaces."""
        owners = {ticket.pin for ticket in model.load.tickets} - {IDLE_PIN}
        return [
            other
            for other in self._registry.models
            if other is not model and (not other.pins - {IDLE_PIN} or other.pins - owners - {IDLE_PIN})
        ]

    def _unload(self, model: Model) -> None:
        logger.info("unloading %s: another model needs its memory", model.id)
        self._moves.keep(model)
        self._registry.unload(model)


def _gives_way(model: Model) -> bool:
    """Whether a model may be unloaded at some time, once it is loaded and idle."""
    if model.handle is None:
        return {ticket.pin for ticket in model.load.tickets} == {IDLE_PIN}
    return model.pins == {IDLE_PIN}


def _longest_idle(models: Iterable[Model]) -> Model | None:
    # A model for which somebody still holds a ticket was loaded for a use that is about to begin.
    idle = [m for m in models if m.pins == {IDLE_PIN} and not m.load.tickets and m.state == "ready"]
    return min(idle, key=lambda model: model.last_used, default=None)
