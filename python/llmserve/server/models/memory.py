"""How much memory models take: judged by their files before the load, and by their engines after it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from llmserve.server.model_files import parts
from llmserve.server.models.model import Model
from llmserve.types import ModelInfo


def file_bytes(path: Path) -> int:
    """The size of a model's file, or of all files of a split model; missing files count 0."""
    return sum(map(_size, parts(path)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def kv_bytes(info: ModelInfo) -> int:
    """The size of a loaded model's KV cache at most: 0 for recurrent states.

    Layers with a sliding window count as if they kept all cells.
    """
    return info.num_cells * (info.kv_bytes_per_token or 0)


def held_bytes(models: Iterable[Model]) -> int:
    """The memory of all models, including loads that have begun. Engines of one file share weights."""
    weights: dict[Path, int] = {}
    cells = 0
    for model in models:
        if model.handle is not None:
            weights[model.path] = max(weights.get(model.path, 0), model.handle.info.size_bytes)
            cells += kv_bytes(model.handle.info)
        elif model.failure is None and model.has_begun:
            weights[model.path] = max(weights.get(model.path, 0), file_bytes(model.path))
    return cells + sum(weights.values())
