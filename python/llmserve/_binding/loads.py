"""How a model is loaded."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from llmserve import _core
from llmserve._binding import logs
from llmserve._binding.blocking import Blocking
from llmserve._binding.waiting import Mailbox, Waiting
from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig

__all__ = ["BlockingLoad", "Load", "Wanted"]

T = TypeVar("T")
Wanted: TypeAlias = Literal["any", "generation", "embedding"]
"""What a model is loaded for."""

_logger = logging.getLogger("llmserve.engine")


class Load(Waiting, Generic[T]):
    """The steps of one load. It begins with the first of them.

    `make` makes the handle of what is loaded, a native model of the kind that is wanted, from it and its
    options.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: ModelConfig,
        wanted: Wanted,
        make: Callable[[Any, ModelConfig], T],
        on_progress: Callable[[float], object] | None = None,
    ) -> None:
        self._path = path
        self._config = config
        self._wanted: Wanted = wanted
        self._make = make
        self._on_progress = on_progress
        # The first progress is always 0.
        self._progress: deque[float] = deque([0.0])
        self._percent = 0
        self._model: T | None = None
        self._error: LoadError | None = None
        self._has_begun = False
        self._num_waiting = 0
        self._inbox: Mailbox | None = None
        # None before the load begins, and once it is over or closed.
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
        """The loaded model. Where this ends otherwise, and nobody else waits, the load is cancelled."""
        try:
            with self._waiting():
                while (progress := await self._next_progress()) is not None:
                    if self._on_progress is not None:
                        self._on_progress(progress)
                # What was there at once can be cancelled, too.
                await self._checkpoint()
        finally:
            self._leave()
        if self._model is None:
            raise LoadError("the load was cancelled", reason="cancelled").at(self._path)
        return self._model

    async def _next_progress(self) -> float | None:
        self._begin()
        while not self._progress:
            if self._load is None or self._inbox is None:
                if self._error is not None:
                    raise self._error.at(self._path)
                return None
            for event in await self._inbox.poll(self._load.take) or ():
                self._add(event)
        return self._progress.popleft()

    def _add(self, event: _core._LoadEvent) -> None:
        if event[0] == "progress":
            # llama.cpp reports every tensor.
            if (percent := int(event[1] * 100)) > self._percent:
                self._percent = percent
                self._progress.append(event[1])
        elif event[0] == "ready":
            self._load = None
            try:
                self._model = self._make(event[1], self._config)
            except LoadError as error:
                self._error = error
        elif event[0] == "failed":
            self._load = None
            self._error = event[1]

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """While this is entered, nobody else who leaves ends the load."""
        self._num_waiting += 1
        try:
            yield
        finally:
            self._num_waiting -= 1

    def _leave(self) -> None:
        if self._num_waiting == 0:
            self._cancel()

    def _cancel(self) -> None:
        """Ends the load, if it is not over."""
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
            state = f"{self._percent} %"
        else:
            state = "cancelled" if self._has_begun else "not begun"
        return f"<{type(self).__name__} {state}>"


class BlockingLoad(Load[T], Blocking):
    """A load that its thread waits for."""

    def interrupt(self) -> None:
        """Cancel it from another thread; the one that waits gets a `LoadError`."""
        if (load := self._load) is not None:
            load.cancel()


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
