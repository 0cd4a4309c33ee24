"""A model of the dialect: which one it is, and how it is loaded, replaced, reloaded and given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from llmserve.engine import Engine
from llmserve.model_config import ModelConfig
from llmserve.server.callbacks import call_all
from llmserve.server.model_kind import ModelKind
from llmserve.server.models import LoadTicket, Model, Registry
from llmserve.server.refusals import (
    LoadAbandonedError,
    ModelLoadingError,
    NotInitializedError,
    OtherLoadRunningError,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """A file with load options."""

    path: Path
    config: ModelConfig


@dataclass(eq=False, slots=True)
class _Load:
    """A load of this dialect and the callers that wait for it."""

    choice: Choice
    is_reload: bool
    tickets: set[LoadTicket] = field(default_factory=set)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ChosenModel:
    """*The* model of the dialect for generation, or for embeddings, pinned in the registry.

    One load at a time. The former model stays until a load has succeeded.
    """

    def __init__(self, registry: Registry, pin: str, kind: ModelKind = "generation") -> None:
        self._registry = registry
        self._pin = pin
        self._kind: ModelKind = kind
        self._choice: Choice | None = None
        self._load: _Load | None = None
        self.on_adopt: list[Callable[[Choice | None], object]] = []
        """Called with the dialect's new model whenever it changes."""

    @property
    def current(self) -> Model | None:
        """The loaded model, or ``None``."""
        try:
            return self.model()
        except (NotInitializedError, ModelLoadingError):
            return None

    @property
    def is_loading(self) -> bool:
        """Whether a load is running."""
        return self._load is not None

    def model(self) -> Model:
        """The loaded model.

        Raises:
            NotInitializedError: No model is loaded.
            ModelLoadingError: Its engine died, and another dialect is replacing it.
        """
        if self._choice is None:
            raise NotInitializedError
        model = self._registry.find(self._choice.path, self._choice.config)
        if model is None or model.failure is not None:
            raise NotInitializedError
        if model.handle is None:
            raise ModelLoadingError
        return model

    @contextmanager
    def use(self) -> Iterator[tuple[Model, Engine]]:
        """The loaded generation model and its engine, kept until the context ends.

        Raises:
            NotInitializedError: No model is loaded.
            ModelLoadingError: Its engine died, and another dialect is replacing it.
        """
        model = self.model()
        with self._registry.use_model(model) as engine:
            yield model, engine

    async def init(self, path: Path, config: Callable[[], ModelConfig]) -> None:
        """Makes a file the model; returns at once if it is that already.

        ``config`` gives the load options once no reload is changing them.

        Raises:
            OtherLoadRunningError: Another file is being loaded.
            LoadError: The file cannot be loaded; the former model stays.
            LoadAbandonedError: `shutdown` came in between.
        """
        while (load := self._load) is not None:
            if load.choice.path != path:
                raise OtherLoadRunningError
            if not load.is_reload:
                break
            await load.over.wait()
        await self._run_load(Choice(path, config()), is_reload=False)

    async def reload(self, choice: Choice) -> Model:
        """Loads the same file with other options; the former engine stays if that fails.

        Raises:
            LoadError: The file cannot be loaded with these options.
            LoadAbandonedError: `shutdown` came in between.
        """
        await self._run_load(choice, is_reload=True)
        return self.model()

    async def settled(self) -> None:
        """Waits until no load is running."""
        while self._load is not None:
            await self._load.over.wait()

    def shutdown(self) -> None:
        """Gives up the model and a running load. Running requests keep the engine."""
        if self._load is not None:
            for ticket in self._load.tickets:
                ticket.give_up(LoadAbandonedError())
        self._adopt(None)

    async def _run_load(self, choice: Choice, *, is_reload: bool) -> None:
        load = self._load = self._load or _Load(choice, is_reload)
        try:
            with self._registry.load(
                load.choice.path, self._pin, load.choice.config, kind=self._kind
            ) as ticket:
                load.tickets.add(ticket)
                try:
                    await ticket.wait()
                    self._adopt(load.choice)
                finally:
                    load.tickets.discard(ticket)
        finally:
            if not load.tickets and self._load is load:
                self._load = None
                load.over.set()
                if self._choice != load.choice:
                    # The last one left just as the load ended, when its pin was set already.
                    self._registry.unpin(load.choice.path, self._pin, load.choice.config)

    def _adopt(self, choice: Choice | None) -> None:
        former, self._choice = self._choice, choice
        if former is not None and former != choice:
            call_all(logger, "the model has changed: a callback failed", self.on_adopt, choice)
            self._registry.unpin(former.path, self._pin, former.config)
