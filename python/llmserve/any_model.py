"""Loading a model of either kind."""

from __future__ import annotations

import os
from collections.abc import Callable

from llmserve import _core
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.loading import Loading
from llmserve.model_config import ModelConfig

__all__ = ["load_any"]


def load_any(
    path: str | os.PathLike[str],
    config: ModelConfig,
    *,
    on_progress: Callable[[float], object] | None = None,
) -> Loading[Engine | Embedder]:
    """`Engine.load` or `Embedder.load`, as the file says."""
    return Loading(path, config, "any", _handle, on_progress)


def _handle(core: _core.Engine | _core.Embedder) -> Engine | Embedder:
    return Embedder(core) if isinstance(core, _core.Embedder) else Engine(core)
