"""A model that is being loaded."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

from llmserve import _core
from llmserve._binding import logs
from llmserve._binding.wakeups import Mailbox
from llmserve.errors import LoadError, WrongModelKindError
from llmserve.model_config import ModelConfig

if TYPE_CHECKING:
    from llmserve.embedder import Embedder
    from llmserve.engine import Engine

__all__ = ["Loading", "Wanted", "WholePercents", "begin"]

Wanted: TypeAlias = Literal["any", "generation", "embedding"]
"""What a model is loaded for."""

_logger = logging.getLogger("llmserve.engine")


class Loading:
    """The progress of one load: an async iterator of floats from 0 to 1 that never fall, one a percent.

    It belongs to the event loop in which it was made. Leaving `async with`, `aclose()`, or dropping it before
    the end cancels the load, unless another caller loads the same file with the same options for the same
    use.
    """

    __slots__ = ("_error", "_load", "_mailbox", "_model", "_percents", "_progress")

    def __init__(self, path: str | os.PathLike[str], config: ModelConfig, wanted: Wanted = "any") -> None:
        self._mailbox = Mailbox()
        # The first is always 0.
        self._progress: deque[float] = deque([0.0])
        self._percents = WholePercents()
        self._model: Engine | Embedder | None = None
        self._error: LoadError | None = None
        # None once it is over or closed.
        self._load: _core.Load | None = None
        try:
            self._load = begin(path, config, self._mailbox.listener, wanted)
        except LoadError as error:
            self._error = error

    def __aiter__(self) -> Loading:
        return self

    async def __anext__(self) -> float:
        """The next progress, 0 to 1. Raises `LoadError` if the load failed."""
        while not self._progress:
            if self._load is None:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._receive(self._load)
        return self._progress.popleft()

    async def model(self) -> Engine | Embedder:
        """The loaded model; waits for it. Raises `LoadError` if the load failed or was closed."""
        while self._load is not None:
            await self._receive(self._load)
        if self._error is not None:
            raise self._error
        if self._model is None:
            raise LoadError("the load was cancelled", reason="cancelled")
        return self._model

    async def engine(self) -> Engine:
        """`model`, where it generates. Raises `WrongModelKindError` for an embedding model."""
        from llmserve.engine import Engine

        model = await self.model()
        if not isinstance(model, Engine):
            raise WrongModelKindError("the model gives embeddings and generates no text")
        return model

    async def embedder(self) -> Embedder:
        """`model`, where it gives embeddings. Raises `WrongModelKindError` for a model that generates."""
        from llmserve.embedder import Embedder

        model = await self.model()
        if not isinstance(model, Embedder):
            raise WrongModelKindError("the model generates text and gives no embeddings")
        return model

    async def aclose(self) -> None:
        """Cancel the load, if it is not over, and end the iteration. A fetched engine stays open."""
        if self._load is not None:
            self._load.cancel()
            self._load = None
        self._progress.clear()

    async def __aenter__(self) -> Loading:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _receive(self, load: _core.Load) -> None:
        for event in await self._mailbox.poll(load.take) or ():
            if event[0] == "progress":
                if self._percents.admits(event[1]):
                    self._progress.append(event[1])
            elif event[0] == "ready":
                self._load = None
                self._model = _handle(event[1])
            elif event[0] == "failed":
                self._load = None
                self._error = event[1]


def _handle(core: _core.Engine | _core.Embedder) -> Engine | Embedder:
    # Here, since both import this module.
    if isinstance(core, _core.Embedder):
        from llmserve.embedder import Embedder

        return Embedder(core)
    from llmserve.engine import Engine

    return Engine(core)


class WholePercents:
    """Lets the first value of each whole percent through, from 1 on: llama.cpp tells of every tensor."""

    __slots__ = ("_percent",)

    def __init__(self) -> None:
        self._percent = 0

    def admits(self, progress: float) -> bool:
        """Whether a progress (0 to 1) is worth telling. 1 is, once."""
        percent = int(progress * 100)
        if percent <= self._percent:
            return False
        self._percent = percent
        return True


def begin(
    path: str | os.PathLike[str], config: ModelConfig, listener: _core.Listener, wanted: Wanted
) -> _core.Load:
    """Begin to load a model. Raises `LoadError` if an option is of the wrong type."""
    logs.start()
    return _core.load(path, config, _probe_command(), listener, wanted)


def _probe_command() -> list[str] | None:
    """The program that opens an unknown file first, in a process of its own: llama.cpp may end it."""
    library = _core.__file__
    if not sys.executable or getattr(sys, "frozen", False) or library is None:
        _logger.warning(
            "no Python interpreter to probe model files with: a damaged file may end this process"
        )
        return None
    probe = Path(__file__).with_name("_probe.py")
    return [sys.executable, "-I", "-S", str(probe), library]
