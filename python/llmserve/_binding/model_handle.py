"""What the handles of all loaded models have in common, whatever the models are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from llmserve import _core
from llmserve.types import ModelInfo, Stats

__all__ = ["ModelHandle"]

CoreT = TypeVar("CoreT", _core.Engine, _core.Embedder)


class ModelHandle(Generic[CoreT]):
    """A loaded model."""

    __slots__ = ("__weakref__", "_core", "_info")
    _core: CoreT

    def __init__(self, core: CoreT) -> None:
        self._core = core
        self._info = ModelInfo(**core.info())

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model file's metadata as text; arrays are left out."""
        return self._info.metadata

    def stats(self) -> Stats:
        """Counters and gauges, without stopping the engine."""
        return Stats(**self._core.stats())

    def check_alive(self) -> None:
        """Raise `EngineDeadError` or `EngineClosedError` if the engine cannot be used any more."""
        self._core.check_alive()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.is_shut_down()
