"""How a model is loaded."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar

from llmserve import _core
from llmserve._binding import logs
from llmserve._binding.waiting import Mailbox, Waiting
from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig

__all__ = ["Load", "NativeModel", "Wanted", "WholePercents"]

T = TypeVar("T")
Wanted: TypeAlias = Literal["any", "generation", "embedding"]
"""What a model is loaded for."""
NativeModel: TypeAlias = _core.Engine | _core.Embedder

_logger = logging.getLogger("llmserve.engine")


class Load(Waiting, Generic[T]):
    """The steps of one load. It begins with the first of them, or with `_begin`."""

    __slots__ = (
        "__weakref__",
        "_config",
        "_error",
        "_has_begun",
        "_inbox",
        "_load",
        "_make",
        "_model",
        "_on_progress",
        "_path",
        "_percents",
        "_progress",
        "_wanted",
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: ModelConfig,
        wanted: Wanted,
        make: Callable[[NativeModel], T],
        on_progress: Callable[[float], object] | None = None,
    ) -> None:
        self._path = path
        self._config = config
        self._wanted: Wanted = wanted
        self._make = make
        self._on_progress = on_progress
        # The first is always 0.
        self._progress: deque[float] = deque([0.0])
        self._percents = WholePercents()
        self._model: T | None = None
        self._error: LoadError | None = None
        self._has_begun = False
        self._inbox: Mailbox | None = None
        # None before it begins, and once it is over or closed.
        self._load: _core.Load | None = None

    def _begin(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._inbox = self._mailbox()
        logs.start()
        try:
            self._load = _core.load(
                self._path, self._config, _probe_command(), self._inbox.listener, self._wanted
            )
        except LoadError as error:
            # An option is of the wrong type.
            self._error = error

    async def _finish(self) -> T:
        """The loaded model. It is cancelled where this ends otherwise."""
        try:
            while (progress := await self._next_progress()) is not None:
                if self._on_progress is not None:
                    self._on_progress(progress)
        finally:
            self._cancel()
        if self._model is None:
            raise LoadError("the load was cancelled", reason="cancelled")
        return self._model

    async def _next_progress(self) -> float | None:
        self._begin()
        while not self._progress:
            if self._load is None or self._inbox is None:
                if self._error is not None:
                    raise self._error
                return None
            for event in await self._inbox.poll(self._load.take) or ():
                self._add(event)
        return self._progress.popleft()

    def _add(self, event: _core._LoadEvent) -> None:
        if event[0] == "progress":
            if self._percents.admits(event[1]):
                self._progress.append(event[1])
            return
        self._load = None
        if event[0] == "failed":
            self._error = event[1]
            return
        try:
            self._model = self._make(event[1])
        except LoadError as error:
            self._error = error

    def _cancel(self) -> None:
        """Ends it, if it is not over."""
        self._has_begun = True
        if self._load is not None:
            self._load.cancel()
            self._load = None
        self._progress.clear()

    def __repr__(self) -> str:
        if self._error is not None:
            state = f"failed: {self._error}"
        elif self._model is not None:
            state = repr(self._model)
        elif self._load is not None:
            state = f"{self._percents.last} %"
        else:
            state = "cancelled" if self._has_begun else "not begun"
        return f"<{type(self).__name__} {state}>"


class WholePercents:
    """Lets the first value of each whole percent through, from 1 on: llama.cpp tells of every tensor."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0
        """The percent that was told last."""

    def admits(self, progress: float) -> bool:
        """Whether a progress (0 to 1) is worth telling. 1 is, once."""
        percent = int(progress * 100)
        if percent <= self.last:
            return False
        self.last = percent
        return True


def _probe_command() -> list[str] | None:
    """The program that opens an unknown file first, in a process of its own: llama.cpp may end it."""
    library = _core.__file__
    if not sys.executable or getattr(sys, "frozen", False) or library is None:
        _logger.warning(
            "no Python interpreter to probe model files with: a damaged file may end this process"
        )
        return None
    probe = Path(__file__).parents[1] / "_probe.py"
    return [sys.executable, "-I", "-S", str(probe), library]
