"""The models that lie in a folder: ``Name.gguf``, ``Org__Name.gguf`` and ``Org/Name.gguf``."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmserve.server.model_files import entries, model_file
from llmserve.server.model_header import HeaderError, read_header
from llmserve.server.paths import shown

logger = logging.getLogger(__name__)

SAFE_SLASH = "__"
"""Stands for the slash of an id where a slash is impossible: in file names and in SIE's paths."""

_PARTS: Mapping[str, str] = {
    "adapter": "a LoRA adapter, which is loaded with its model (LLMSERVE_LORA)",
    "mmproj": "a projector of images or audio, which llmserve does not read",
}
"""Values of `general.type` of files that are not models by themselves, and what they are."""

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
    parts: Mapping[str, str]
    """What the files are that are not models by themselves, by the safe id that each would have."""
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
    part_of: dict[str, str] = {}
    for path, model_id in found:
        if (kind := _kind_of(path)) in _PARTS:
            part_of[safe_id(model_id)] = _PARTS[kind]
            continue
        model = FoundModel(model_id, model_file(path))
        if by_id.setdefault(safe_id(model_id), model) is not model:
            logger.warning("the model id %s is taken: %s is left out", model_id, shown(path.name))
    return FolderScan(tuple(by_id.values()), part_of, tuple(stamps), read_at_ns)


def safe_id(model_id: str) -> str:
    """An id without slashes, as in SIE's paths: ``Org__Name``."""
    return model_id.replace("/", SAFE_SLASH)


def _id_of(name: str) -> str:
    return shown(Path(name).stem).replace(SAFE_SLASH, "/", 1)


def _kind_of(path: Path) -> str:
    """What the header of a file says of its type."""
    try:
        return _type_of(path, path.stat().st_mtime_ns)
    except (OSError, HeaderError):
        return "model"  # its load explains what is wrong with it


@functools.lru_cache(maxsize=1024)
def _type_of(path: Path, changed_ns: int) -> str:
    """As `_kind_of`, of a file that changed then."""
    header = read_header(path)
    return "mmproj" if header.architecture == "clip" else str(header.metadata.get("general.type", "model"))


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
