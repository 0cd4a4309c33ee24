"""Loads the model that the settings name, while the server already answers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Protocol

from llmserve.errors import LoadError
from llmserve.server.model_files import model_file
from llmserve.server.models import SERVER_PIN, Model
from llmserve.server.refusals import ServerStoppingError
from llmserve.server.services import Services

logger = logging.getLogger(__name__)


class StartObserver(Protocol):
    """An observer of the load."""

    def on_progress(self, progress: float) -> None:
        """The load has progressed to this share, 0 to 1."""

    def on_ready(self, model: Model) -> None:
        """The model is loaded."""

    def on_failed(self, error: Exception) -> None:
        """The load has failed."""


class FirstModel:
    """The load of ``LLMSERVE_MODEL``. A failure is logged, reported to the observer and in `/health`."""

    def __init__(self, services: Services, observer: StartObserver | None) -> None:
        self._services = services
        self._observer = observer
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the load, if a model is set."""
        if (model := self._services.settings.model) is not None:
            # The operator's own path: MODELS_DIR binds clients only.
            self._task = asyncio.create_task(self._load(model_file(model)))

    async def wait(self) -> None:
        """Waits until the load has ended, successfully or not."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _load(self, path: Path) -> None:
        try:
            with self._services.registry.load(path, SERVER_PIN) as ticket:
                async for progress in ticket.progress():
                    if self._observer is not None:
                        self._observer.on_progress(progress)
            if self._services.lifecycle.is_stopping:  # the model may be gone already
                raise ServerStoppingError
            self._report(self._services.registry.pick(path))
        except ServerStoppingError:
            logger.info("the load was cancelled: the server is stopping")
        except Exception as error:
            self._report_failure(error)

    def _report_failure(self, error: Exception) -> None:
        if not isinstance(error, LoadError):
            logger.error("the first model failed", exc_info=error)
        elif self._observer is None:  # an observer reports it by itself
            logger.error("the first model could not be loaded: %s", error)
        if self._observer is not None:
            self._observer.on_failed(error)

    def _report(self, model: Model) -> None:
        if self._observer is not None:
            self._observer.on_ready(model)
        elif model.embedder is not None:
            embedding = model.embedder.info
            logger.info(
                "serving %s: embeddings of %d values (%s pooling), context length %d, %d inputs at once",
                model.id,
                embedding.embedding_length,
                embedding.pooling,
                embedding.context_length,
                embedding.num_slots,
            )
        elif model.engine is not None:
            info = model.engine.info
            logger.info(
                "serving %s: context length %d, %d cells, %d sequences, %d threads",
                model.id,
                info.context_length,
                info.num_cells,
                info.num_slots,
                info.num_threads,
            )
