"""How much memory models take: judged by their files before the load, and by their engines after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from llmserve.server.model_files import PART
from llmserve.server.models.model import Model
from llmserve.types import ModelInfo

_MAX_PARTS = 1000

# Bytes per value: those of a block of 32 values, divided by 32 (ggml-common.h).
_KV_BYTES: Mapping[str, float] = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}


def file_bytes(path: Path) -> int:
    """The size of a model's file, or of all files of a split model; missing files count 0."""
    part = PART.fullmatch(path.name)
    if part is None:
        return _size(path)
    count = min(int(part["count"]), _MAX_PARTS)
    return sum(_size(path.with_name(_part_name(part, number))) for number in range(1, count + 1))


def _part_name(part: re.Match[str], number: int) -> str:
    return f"{part['name']}-{number:05}-of-{part['count']}{part.string[-len('.gguf') :]}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def kv_bytes(info: ModelInfo) -> int:
    """The size of a loaded model's KV cache by its metadata: 0 for recurrent states.

    Layers with a sliding window count as if they kept all cells.
    """

    def number(key: str) -> int | None:
        text = info.metadata.get(f"{info.architecture}.{key}", "")
        return int(text) if text.isdigit() else None

    layers, heads = number("block_count"), number("attention.head_count")
    if info.is_recurrent or not layers or not heads:
        return 0
    kv_heads = number("attention.head_count_kv") or heads
    length = info.embedding_length // heads
    row = (number("attention.key_length") or length) * _KV_BYTES.get(info.kv_type_k, 2)
    row += (number("attention.value_length") or length) * _KV_BYTES.get(info.kv_type_v, 2)
    return int(info.num_cells * layers * kv_heads * row)


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
