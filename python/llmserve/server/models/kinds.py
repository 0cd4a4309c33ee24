"""What models are for, by the headers of their files: known before anything is loaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from llmserve import _core
from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.errors import LoadError
from llmserve.model_config import ModelConfig
from llmserve.server.model_kind import ModelKind
from llmserve.server.models.entries import CatalogueEntry

logger = logging.getLogger(__name__)

EmbedderKind: TypeAlias = Literal["embedding", "reranking"]
"""The kinds of models that an `Embedder` has."""

_Stamp: TypeAlias = tuple[int, int, int]


def kind_of(handle: Engine | Embedder) -> ModelKind:
    """What a loaded model is for."""
    if not isinstance(handle, Embedder):
        return "generation"
    return "reranking" if handle.info.pooling == "rank" else "embedding"


class FileKinds:
    """Reads headers, and remembers what it found for as long as a file does not change."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[ModelConfig, _Stamp, ModelKind | None]] = {}

    async def of(self, entry: CatalogueEntry) -> ModelKind | None:
        """What an entry's model is for; ``None`` if the file does not tell, which its load will explain."""
        return (await self.of_all((entry,)))[0]

    async def of_all(self, entries: Sequence[CatalogueEntry]) -> list[ModelKind | None]:
        """What the models of several entries are for, read on one thread."""
        return await asyncio.to_thread(lambda: [self._of(entry) for entry in entries])

    def _of(self, entry: CatalogueEntry) -> ModelKind | None:
        try:
            stat = entry.path.stat()
        except OSError:
            return None
        stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = self._known.get(entry.path)
        if known is not None and known[:2] == (entry.config, stamp):
            return known[2]
        kind = _read(entry)
        self._known[entry.path] = (entry.config, stamp, kind)
        return kind


def _read(entry: CatalogueEntry) -> ModelKind | None:
    try:
        return _core.model_kind(entry.path, entry.config)
    except LoadError as error:
        logger.debug("the header of %s does not say what the model is for: %s", entry.id, error)
        return None
