"""The one registry of the process. All its methods belong to the event loop's thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from llmserve.any_model import LoadModel, load_any
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig
from llmserve.server.callbacks import call_all
from llmserve.server.model_kind import ModelKind
from llmserve.server.models.drafting import start_drafting
from llmserve.server.models.ids import NameOf, new_ids, pass_id_on, take_id
from llmserve.server.models.kinds import kind_of
from llmserve.server.models.loading import LoadTicket, SharedLoad
from llmserve.server.models.memory import kv_bytes
from llmserve.server.models.model import SERVER_PIN, Model, ModelState
from llmserve.server.refusals import (
    LoadAbandonedError,
    ModelKindError,
    ModelLoadingError,
    ServerStoppingError,
    UnknownModelError,
)
from llmserve.server.settings import DraftSettings

logger = logging.getLogger(__name__)

MAX_FAILED = 16
"""How many failed loads are remembered."""
FAILURE_S = 600.0
"""For how long a failed load is remembered, unless the server itself needs the model."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model as `/health` shows it."""

    id: str
    state: ModelState
    kind: ModelKind | None = field(default=None, compare=False)
    """What the model is for, once it is loaded."""
    has_draft_head: bool | None = None
    """Whether the model can draft with a head of its own; ``None`` while that is unknown."""
    backend: str | None = field(default=None, compare=False)
    """The device that computes the layers, once the model is loaded."""
    num_gpu_layers: int | None = field(default=None, compare=False)
    """Number of layers on GPUs, once it is loaded."""
    memory_bytes: int | None = field(default=None, compare=False)
    """Memory of the weights and of all KV cells, once it is loaded."""


class Registry:
    """Models by (real path, load options), kept by pins and by running requests.

    A dialect *pins* what it loads, under its own name; what it only names in a request it *uses* for as
    long as the request lasts. A model goes when it has neither.
    """

    def __init__(self, default_config: ModelConfig) -> None:
        self.default_config = default_config
        self._models: list[Model] = []
        self._closing: set[asyncio.Task[None]] = set()
        self.on_retire: list[Callable[[Model], object]] = []
        """Called with each model that is unloaded for good."""
        self.load_model: LoadModel = load_any
        self.before_load: Callable[[Model], Awaitable[object]] | None = None
        """Awaited before a model is loaded; if it raises, the load has failed and is not remembered."""
        self.on_ready: list[Callable[[Model], object]] = []
        """Called with each model that has been loaded."""
        self.drafting_of: Callable[[Path, ModelConfig], DraftSettings] = lambda path, config: DraftSettings()
        """How requests for a file with load options draft."""
        self.name_of: NameOf = lambda path, config: None
        """The catalogue's id of a file with load options."""
        self._news = asyncio.Event()

    def load(
        self, path: Path, pin: str, config: ModelConfig | None = None, *, kind: ModelKind | None = None
    ) -> LoadTicket:
        """Pins the model at a real path, loading it if it is neither ready nor being loaded.

        A load that failed and an engine that died are replaced. If the model is not of the ``kind`` that is
        wanted, it is not pinned, and the ticket raises ``ModelKindError`` in the end.
        """
        config = config or self.default_config
        model = self.find(path, config)
        if model is not None and model.can_be_joined:
            if model.handle is not None and kind in (None, model.kind):
                model.pins.add(pin)
            return model.load.join(pin, kind)
        return self._start(path, config, replaced=model).load.join(pin, kind)

    @contextmanager
    def use_model(self, model: Model) -> Iterator[Engine]:
        """The engine of a loaded model, kept until the context ends.

        Raises:
            ModelKindError: The model does not generate.
        """
        with self.use_handle(model) as handle:
            if not isinstance(handle, Engine):
                raise ModelKindError("generation", kind_of(handle))
            yield handle

    @contextmanager
    def use_handle(self, model: Model) -> Iterator[Engine | Embedder]:
        """The engine or embedder of a loaded model, kept until the context ends."""
        try:
            with model.use() as handle:
                yield handle
        finally:
            self._retire_if_unused(model)
            self._tell()

    def find(self, path: Path, config: ModelConfig) -> Model | None:
        """The model of a real path and load options, in whatever state."""
        return next((m for m in self._models if m.path == path and m.config == config), None)

    def pick(self, path: Path) -> Model:
        """The ready model at a real path; of several, the one with the server's own options.

        Raises:
            UnknownModelError: No such model is loaded.
            ModelLoadingError: The model is being loaded.
        """
        candidates = [model for model in self._models if model.path == path]
        candidates.sort(key=lambda model: model.config != self.default_config)
        for model in candidates:
            if model.handle is not None and not model.handle.is_closed:
                return model
        if any(model.state == "loading" for model in candidates):
            raise ModelLoadingError
        raise UnknownModelError

    def unpin(self, path: Path, pin: str, config: ModelConfig | None = None) -> None:
        """Takes a pin off the models at a real path, or off the one with ``config``.

        A model is unloaded with its last pin and use.
        """
        for model in [model for model in self._models if model.path == path]:
            if config is None or model.config == config:
                model.pins.discard(pin)
                self._retire_if_unused(model)
        self._tell()

    def unload(self, model: Model) -> None:
        """Closes a model that nobody uses, though it is pinned. Its sessions are not told.

        Raises:
            RuntimeError: The model is being loaded or used.
        """
        if model.handle is None or model.num_uses > 0:
            raise RuntimeError("a model that is loaded or used cannot be unloaded")
        model.pins.clear()
        self._close(model)

    async def wait_news(self) -> None:
        """Returns once a load, a wait for one, a use, a pin or a model has ended."""
        await self._news.wait()

    async def wait_closed(self) -> None:
        """Returns once the memory of unloaded models is free."""
        if self._closing:
            await asyncio.wait(set(self._closing))

    @property
    def models(self) -> tuple[Model, ...]:
        """All models, oldest first."""
        return tuple(self._models)

    def states(self) -> list[ModelReport]:
        """The status of every model."""
        return [_report(model) for model in self._models]

    @property
    def has_dead_engine(self) -> bool:
        """Whether an engine died and has not been replaced."""
        return any(model.is_dead for model in self._models)

    async def cancel_loads(self) -> None:
        """Cancels all loads, because the server stops."""
        for model in self.models:
            await model.load.cancel(ServerStoppingError())

    async def close(self) -> None:
        """Cancels loads; closes engines and returns once their memory is free."""
        await self.cancel_loads()
        for model in self.models:
            self._retire(model)
        await self.wait_closed()

    def _start(self, path: Path, config: ModelConfig, replaced: Model | None) -> Model:
        if replaced is not None:
            self._retire(replaced)

        def on_end(handle: Engine | Embedder | None, failure: BaseException | None) -> None:
            self._on_load_end(model, handle, failure)

        async def load(on_progress: Callable[[float], object]) -> Engine | Embedder:
            return await self._load(model, on_progress)

        model = Model(
            new_ids(self._models, path, config, self.name_of),
            path,
            config,
            SharedLoad(load, on_end, self._tell),
        )
        if replaced is not None:
            model.pins |= replaced.pins
        self._models.append(model)
        return model

    async def _load(self, model: Model, on_progress: Callable[[float], object]) -> Engine | Embedder:
        if self.before_load is not None:
            await self.before_load(model)
        model.has_begun = True
        handle = await self.load_model(model.path, model.config, on_progress)
        if isinstance(handle, Engine):
            try:
                await start_drafting(handle, self.drafting_of(model.path, model.config), model.id)
            except BaseException:
                await handle.close()
                raise
        return handle

    def _on_load_end(
        self, model: Model, handle: Engine | Embedder | None, failure: BaseException | None
    ) -> None:
        model.handle = handle
        model.failure = failure
        if handle is not None:
            model.pins |= {ticket.pin for ticket in model.load.tickets if ticket.is_served}
            model.loaded_at = time.monotonic()
            take_id(model, self._models, self.name_of)
            call_all(logger, f"model {model.id} is loaded: a callback failed", self.on_ready, model)
            self._retire_if_unused(model)
        elif not model.has_begun or isinstance(failure, LoadAbandonedError | ServerStoppingError):
            self._forget(model)
        else:
            # The engine has logged a `LoadError`, with llama.cpp's own words.
            if not isinstance(failure, LoadError):
                logger.error("model %s could not be loaded", model.id, exc_info=failure)
            model.failed_at = time.monotonic()
            model.is_kept = bool(model.pins) or any(ticket.pin == SERVER_PIN for ticket in model.load.tickets)
            self._forget_old_failures()
            if not model.is_kept:
                asyncio.get_running_loop().call_later(FAILURE_S, self._forget_failure, model)
        self._tell()

    def _retire_if_unused(self, model: Model) -> None:
        if model.handle is not None and not model.pins and model.num_uses == 0:
            self._retire(model)

    def _retire(self, model: Model) -> None:
        call_all(logger, f"model {model.id} goes: a callback failed", self.on_retire, model)
        self._close(model)

    def _close(self, model: Model) -> None:
        self._forget(model)
        self._tell()
        task = asyncio.get_running_loop().create_task(model.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _forget(self, model: Model) -> None:
        if model in self._models:
            self._models.remove(model)
            pass_id_on(model, self._models, self.name_of)

    def _forget_failure(self, model: Model) -> None:
        self._forget(model)
        self._tell()

    def _forget_old_failures(self) -> None:
        failed = [model for model in self._models if model.failure is not None and not model.is_kept]
        for model in failed[:-MAX_FAILED]:
            self._forget(model)


def _report(model: Model) -> ModelReport:
    info = None if model.handle is None else model.handle.info
    return ModelReport(
        model.id,
        model.state,
        model.kind,
        None if model.engine is None else model.engine.info.has_draft_head,
        None if info is None else info.backend,
        None if info is None else info.num_gpu_layers,
        None if info is None else info.size_bytes + kv_bytes(info),
    )
