"""Models by their catalogue ids: loaded when a request needs them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.errors import LoadError
from llmserve.server.model_kind import ModelKind
from llmserve.server.models.catalogue import Catalogue
from llmserve.server.models.entries import CatalogueEntry
from llmserve.server.models.kinds import EmbedderKind, FileKinds, kind_of
from llmserve.server.models.loading import LoadTicket
from llmserve.server.models.model import IDLE_PIN, Model
from llmserve.server.models.registry import Registry
from llmserve.server.refusals import (
    ModelKindError,
    ModelLoadingError,
    ModelNotLoadedError,
    ServerStoppingError,
    UnknownModelError,
)
from llmserve.server.request_notes import Operation, notes

RETRY_S = 10.0
"""For this many seconds a failed load is not tried again: requests get the failure."""

_OPERATIONS: Mapping[EmbedderKind, Operation] = {"embedding": "embeddings", "reranking": "rerank"}


@dataclass(frozen=True, slots=True)
class UsedHandle:
    """A loaded model in use, whatever it is for."""

    entry: CatalogueEntry
    handle: Engine | Embedder


@dataclass(frozen=True, slots=True)
class UsedEmbedder:
    """A loaded embedding model in use."""

    entry: CatalogueEntry
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class UsedModel:
    """A loaded model in use, which generates."""

    entry: CatalogueEntry
    model: Model
    """The registry's model, to which sessions belong."""
    engine: Engine


@dataclass(frozen=True, slots=True)
class EntryState:
    """What a catalogue model can do now."""

    name: Literal["available", "loading", "loaded", "failed"]
    """``available``: it will be loaded when it is needed."""
    model: Model | None = None
    """The registry's model, if it is loaded."""
    failure: LoadError | None = None


class OnDemand:
    """Provides engines by catalogue id. All methods belong to the event loop's thread.

    Every engine that it provides is pinned, so that no dialect that loaded it can take it away.
    """

    def __init__(self, registry: Registry, catalogue: Catalogue, *, wait_s: float) -> None:
        """``wait_s``: how long a request waits for a load at most."""
        self._registry = registry
        self._catalogue = catalogue
        self._wait_s = wait_s
        self.kinds = FileKinds()
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False

    @asynccontextmanager
    async def use(self, model_id: str | None, *, wait_s: float = math.inf) -> AsyncGenerator[UsedModel, None]:
        """A model that generates, kept until the context ends; it is loaded if necessary.

        Without an id it is the only one that is loaded, or else the first of the catalogue.

        ``wait_s`` is how long to wait for a load, if that is less than the server's own limit. The load
        goes on even if nobody waits for it any more.

        Raises:
            UnknownModelError: The catalogue has no such id.
            ModelLoadingError: The load takes longer.
            LoadError: The model cannot be loaded.
            ModelKindError: The model does not generate; it is not loaded to find that out.
            ServerStoppingError: The server stops.
        """
        entry = await self._find(model_id, "generation")
        async with self._ready(entry, min(self._wait_s, wait_s)) as model:
            with self._registry.use_model(model) as engine:
                yield UsedModel(entry, model, engine)

    @asynccontextmanager
    async def use_embedder(
        self, model_id: str | None, kind: EmbedderKind = "embedding"
    ) -> AsyncGenerator[UsedEmbedder, None]:
        """A model that gives vectors, or one that ranks, under the rules and refusals of `use`."""
        entry = await self._find(model_id, kind)
        async with self._ready(entry, self._wait_s) as model:
            with self._registry.use_handle(model) as handle:
                found = kind_of(handle)
                if not isinstance(handle, Embedder) or found != kind:
                    raise ModelKindError(kind, found)
                taken = notes()
                taken.model, taken.operation = entry.id, _OPERATIONS[kind]
                yield UsedEmbedder(entry, handle)

    @asynccontextmanager
    async def use_any(self, model_id: str | None) -> AsyncGenerator[UsedHandle, None]:
        """A model of any kind, under the rules and refusals of `use`."""
        entry = await self._find(model_id, None)
        async with self._ready(entry, self._wait_s) as model:
            with self._registry.use_handle(model) as handle:
                yield UsedHandle(entry, handle)

    async def loaded(self, model_id: str | None) -> UsedHandle:
        """A model that is loaded. Nothing is loaded or kept for it, and it does not count as a use.

        Raises:
            UnknownModelError: The catalogue has no such id.
            ModelLoadingError: The model is being loaded.
            LoadError: The model could not be loaded a moment ago.
            ModelNotLoadedError: The model is not loaded.
        """
        entry = await self._find(model_id, None)
        state = self.state(entry)
        if state.model is not None and state.model.handle is not None:
            return UsedHandle(entry, state.model.handle)
        if state.name == "loading":
            raise ModelLoadingError
        raise state.failure or ModelNotLoadedError(entry.id)

    async def begin(self, model_id: str) -> None:
        """Begins to load a model, unless it is loaded or being loaded.

        Raises:
            UnknownModelError: The catalogue has no such id.
            LoadError: The model could not be loaded a moment ago.
            ServerStoppingError: The server stops.
        """
        entry = await self._find(model_id, None)
        if self._usable(entry) is None and entry.id not in self._loads:
            self._start(entry)

    def state(self, entry: CatalogueEntry) -> EntryState:
        """What the model can do now."""
        model = self._registry.find(entry.path, entry.config)
        if model is not None and model.is_usable:
            return EntryState("loaded", model)
        if entry.id in self._loads or (model is not None and model.can_be_joined):
            return EntryState("loading")
        if (failure := self._recent_failure(entry)) is not None:
            return EntryState("failed", failure=failure)
        return EntryState("available")

    async def close(self) -> None:
        """Stops loading and ends the loads that wait for memory. The registry ends the others."""
        self._is_stopping = True
        tasks = set(self._loads.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _find(self, model_id: str | None, kind: ModelKind | None) -> CatalogueEntry:
        if not model_id:
            return await self._default(kind)
        entry = await self._catalogue.find(model_id)
        model = self._registry.find(entry.path, entry.config)
        # Nothing is loaded or unloaded only to find that the model is the wrong one.
        if kind is not None and (model is None or not model.is_usable):
            found = await self.kinds.of(entry)
            if found is not None and found != kind:
                raise ModelKindError(kind, found)
        return entry

    async def _default(self, kind: ModelKind | None) -> CatalogueEntry:
        """The model of a request that names none."""
        entries = await self._catalogue.entries()
        if kind is not None:
            kinds = await self.kinds.of_all(entries)
            of_kind = {
                wanted: tuple(entry for entry, found in zip(entries, kinds, strict=True) if found == wanted)
                for wanted in (kind, None)
            }
            if entries and not any(of_kind.values()):
                raise ModelKindError(kind)
            entries = of_kind[kind] or of_kind[None]
        if not entries:
            raise UnknownModelError("")
        loaded = [entry for entry in entries if self.state(entry).name == "loaded"]
        return loaded[0] if len(loaded) == 1 else entries[0]

    @asynccontextmanager
    async def _ready(self, entry: CatalogueEntry, wait_s: float) -> AsyncGenerator[Model, None]:
        """The loaded model, which does not give way before its use within the context has begun."""
        deadline = time.monotonic() + wait_s
        while (model := self._usable(entry)) is None:
            task = self._loads.get(entry.id) or self._start(entry)
            with self._held(entry):
                await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
                if not task.done():
                    raise ModelLoadingError
                _raise_failure(task)
                if (model := self._usable(entry)) is not None:
                    yield model
                    return
        yield model

    def _usable(self, entry: CatalogueEntry) -> Model | None:
        model = self._registry.find(entry.path, entry.config)
        if model is None or not model.is_usable:
            return None
        model.pins.add(IDLE_PIN)
        return model

    def _held(self, entry: CatalogueEntry) -> AbstractContextManager[object]:
        model = self._registry.find(entry.path, entry.config)
        return nullcontext() if model is None or not model.can_be_joined else model.load.join(IDLE_PIN, None)

    def _start(self, entry: CatalogueEntry) -> asyncio.Task[None]:
        if self._is_stopping:
            raise ServerStoppingError
        if (failure := self._recent_failure(entry)) is not None:
            raise failure
        # Done now, so that those who wait find it.
        ticket = self._registry.load(entry.path, IDLE_PIN, entry.config)
        task = asyncio.create_task(_wait(ticket))
        self._loads[entry.id] = task

        def forget(done: asyncio.Task[None]) -> None:
            del self._loads[entry.id]
            if not done.cancelled():
                done.exception()  # Perhaps nobody is left who would retrieve it.

        task.add_done_callback(forget)
        return task

    def _recent_failure(self, entry: CatalogueEntry) -> LoadError | None:
        model = self._registry.find(entry.path, entry.config)
        if model is None or not isinstance(model.failure, LoadError):
            return None
        return _fresh(model.failure) if time.monotonic() - model.failed_at < RETRY_S else None


async def _wait(ticket: LoadTicket) -> None:
    with ticket:
        await ticket.wait()


def _raise_failure(task: asyncio.Task[None]) -> None:
    if task.cancelled():
        raise ServerStoppingError
    failure = task.exception()
    if failure is not None:
        raise _fresh(failure) if isinstance(failure, LoadError) else failure


def _fresh(failure: LoadError) -> LoadError:
    """A copy of the failure: an exception that is raised over and over collects the traces of all."""
    return failure.named(failure.field)
