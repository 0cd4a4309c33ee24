"""One model of the registry: a load, then an engine or the reason why there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.errors import EngineClosedError, EngineDeadError, LlmserveError
from llmserve.server.model_kind import ModelKind
from llmserve.server.models.loading import SharedLoad
from llmserve.types import ModelConfig, Stats

logger = logging.getLogger(__name__)

IDLE_PIN = "until its memory is needed"
"""The pin of models that clients loaded, by path or by id: it keeps an idle model while there is room."""

SERVER_PIN = "server"
"""The pin of the model that the server was started with."""

ModelState = Literal["loading", "ready", "busy", "failed"]


class Model:
    """A file with load options. Pins and uses keep its engine; the registry acts when both are gone."""

    def __init__(self, ids: tuple[str, str], path: Path, config: ModelConfig, load: SharedLoad) -> None:
        """``ids`` are those of the file and of the model, see `ids`."""
        self.file_id, self.id = ids
        self.path = path
        self.config = config
        self.load = load
        self.pins: set[str] = set()
        self.num_uses = 0
        self.has_begun = False
        """Whether the model takes memory: before that, its load may wait for room."""
        self.handle: Engine | Embedder | None = None
        """What was loaded."""
        self.loaded_at = 0.0
        """When the model was loaded, in seconds of the monotonic clock; 0 before."""
        self.failure: BaseException | None = None
        self.failed_at = 0.0
        self.is_kept = False
        """Whether the failure is shown until the model is loaded: the server's start needs it, or it had been
        loaded and its engine died."""
        self.last_used = time.monotonic()
        """When a request last began or ended, or else when this was made, by the monotonic clock."""

    @property
    def engine(self) -> Engine | None:
        """The engine of a model that generates, once it is loaded."""
        return self.handle if isinstance(self.handle, Engine) else None

    @property
    def embedder(self) -> Embedder | None:
        """The embedder of an embedding model, once it is loaded."""
        return self.handle if isinstance(self.handle, Embedder) else None

    @property
    def kind(self) -> ModelKind | None:
        """What the model is for, once it is loaded."""
        return self.load.kind

    @property
    def state(self) -> ModelState:
        """What the model can do now. ``busy`` means that requests run or wait; more are accepted."""
        if self.failure is not None or self.is_dead:
            return "failed"
        if self.handle is None:
            return "loading"
        stats = self.handle.stats()
        num_requests = self.num_uses + stats.num_preparing + stats.num_waiting + stats.num_running
        return "busy" if num_requests else "ready"

    @property
    def is_dead(self) -> bool:
        """Whether the engine died after it had been ready."""
        if self.handle is None:
            return False
        try:
            self.handle.check_alive()
        except EngineDeadError:
            return True
        except EngineClosedError:
            return False
        return False

    @property
    def can_be_joined(self) -> bool:
        """Whether one more caller can share the load or the engine."""
        if self.handle is None:
            return self.failure is None and not self.load.is_cancelling
        return self.is_usable

    @property
    def is_usable(self) -> bool:
        """Whether the engine accepts requests."""
        return self.handle is not None and not self.handle.is_closed and not self.is_dead

    def stats(self) -> Stats | None:
        """The engine's counters, or ``None`` if there is no living engine."""
        if self.handle is None or not self.is_usable:
            return None
        return self.handle.stats()

    @contextmanager
    def use(self) -> Iterator[Engine | Embedder]:
        """What was loaded, kept for as long as the context lasts.

        Raises:
            RuntimeError: The model is not loaded.
        """
        if self.handle is None:
            raise RuntimeError("the model is not loaded")
        self.num_uses += 1
        self.last_used = time.monotonic()
        try:
            yield self.handle
        finally:
            self.num_uses -= 1
            self.last_used = time.monotonic()

    async def close(self) -> None:
        """Cancels the load, or closes the engine and returns once its memory is free."""
        await self.load.cancel()
        if self.handle is not None:
            try:
                await self.handle.close()
            except LlmserveError as error:
                logger.warning("model %s: closing failed: %s", self.id, error)
