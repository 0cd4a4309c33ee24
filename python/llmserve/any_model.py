"""Loading a model of either kind."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from llmserve import _core
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.loading import Loading
from llmserve.model_config import ModelConfig

__all__ = ["LoadModel", "handle_of", "load_any"]

LoadModel: TypeAlias = Callable[[Path, ModelConfig, Callable[[float], object]], Awaitable[Engine | Embedder]]
"""Loads a model, and tells its progress, 0 to 1."""


def load_any(
    path: str | os.PathLike[str],
    config: ModelConfig,
    on_progress: Callable[[float], object] | None = None,
) -> Loading[Engine | Embedder]:
    """`Engine.load` or `Embedder.load`, as the file says."""
    return Loading(path, config, "any", handle_of, on_progress)


def handle_of(core: _core.Engine | _core.Embedder, config: ModelConfig) -> Engine | Embedder:
    """The handle of a native model, which was loaded with the options."""
    return Embedder(core, config) if isinstance(core, _core.Embedder) else Engine(core, config)
