"""The models that lie in a folder: ``Name.gguf``, ``Org__Name.gguf`` and ``Org/Name.gguf``."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmserve.server.model_files import entries, model_file
from llmserve.server.model_header import other_role
from llmserve.server.paths import shown

logger = logging.getLogger(__name__)

SAFE_SLASH = "__"
"""Stands for the slash of an id where a slash is impossible: in file names and in SIE's paths."""

_SETTLE_NS = 2_000_000_000
"""A folder that changed this shortly before it was read is read again: its time may be as coarse as that."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model's id and the real path of its file, or of its first part."""

    id: str
    path: Path


@dataclass(frozen=True, slots=True)
class FolderScan:
    """What a folder contained when it was read."""

    models: tuple[FoundModel, ...]
    others: Mapping[str, str]
    """By the id that it would have without slashes: what a file is that is not a model by itself."""
    stamps: tuple[tuple[str, int], ...]
    """Every folder that was read, and its time of change in nanoseconds."""
    read_at_ns: int

    def is_stale(self) -> bool:
        """Whether a folder has changed since, or may have."""
        return any(
            _changed_at(folder) != stamp or stamp > self.read_at_ns - _SETTLE_NS
            for folder, stamp in self.stamps
        )


def scan(folder: Path) -> FolderScan:
    """Reads a folder and those in it. Links may lead anywhere: whoever fills the folder put them there.

    Of several files with one id, the first counts: those in the folder itself before those in its folders,
    and each in the order of their names. Whatever cannot be read is left out.
    """
    read_at_ns = time.time_ns()
    files, folders = _entries(folder)
    stamps = [(str(folder), _changed_at(str(folder)))]
    found = [(path, _id_of(path.name)) for path in files]
    for below in folders:
        stamps.append((str(below), _changed_at(str(below))))
        found += [(path, f"{shown(below.name)}/{shown(path.stem)}") for path in _entries(below)[0]]
    by_id: dict[str, FoundModel] = {}
    others: dict[str, str] = {}
    for path, model_id in found:
        if (role := other_role(path)) is not None:
            others.setdefault(safe_id(model_id), role)
            continue
        model = FoundModel(model_id, model_file(path))
        if by_id.setdefault(safe_id(model_id), model) is not model:
            logger.warning("the model id %s is taken: %s is left out", model_id, shown(path.name))
    return FolderScan(tuple(by_id.values()), others, tuple(stamps), read_at_ns)


def safe_id(model_id: str) -> str:
    """An id without slashes, as in SIE's paths: ``Org__Name``."""
    return model_id.replace("/", SAFE_SLASH)


def _id_of(name: str) -> str:
    return shown(Path(name).stem).replace(SAFE_SLASH, "/", 1)


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """The model files and the folders in a folder, by name."""
    try:
        return entries(folder)
    except OSError as error:
        logger.warning("the folder of models cannot be read: %s", error.strerror)
        return [], []


def _changed_at(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0
