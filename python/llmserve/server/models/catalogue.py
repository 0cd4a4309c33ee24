"""The models that clients can name, loaded or not, and their ids: the same in every dialect that uses ids."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from llmserve.model_config import ModelConfig
from llmserve.server.model_files import model_file
from llmserve.server.models import models_folder
from llmserve.server.models.catalogue_file import read_catalogue
from llmserve.server.models.entries import CatalogueEntry
from llmserve.server.models.models_folder import FolderScan, safe_id
from llmserve.server.models.registry import Registry
from llmserve.server.paths import AllowedFolder, shown
from llmserve.server.refusals import NotAModelError, PathNotAllowedError, UnknownModelError
from llmserve.server.settings import DraftSettings, Settings

logger = logging.getLogger(__name__)


class Catalogue:
    """The model that the server was started with, and those of the catalogue's file or of ``MODELS_DIR``.

    Models that a dialect loaded from another path, or with other options, are listed under their registry
    id as long as they are loaded. Of several models with one id the first in this order
    counts, with one exception: an entry of the file stands for the start model's file too, where both have
    one id.
    """

    def __init__(self, settings: Settings, registry: Registry) -> None:
        """Reads the file, but not yet the folder.

        Raises:
            SettingsError: The file cannot be read or is wrong.
        """
        self._registry = registry
        self._config = settings.model_config
        self._drafting = settings.drafting
        self._default_sampling = settings.default_sampling
        self._folder = settings.models_dir if settings.catalogue is None else None
        self._paths = AllowedFolder(settings.models_dir, "MODELS_DIR", model_file)
        self._scan: FolderScan | None = None
        self._scanning = asyncio.Lock()
        self._of_file = _entries_of_file(settings)
        self._fixed = _merged(_start_model(settings), self._of_file)
        self._by_safe_id: dict[str, CatalogueEntry] = {}
        self._set(self._fixed)

    async def entries(self) -> tuple[CatalogueEntry, ...]:
        """All models. The folder is read again, on a thread, if it changed."""
        await self._refresh()
        return (*self._by_safe_id.values(), *self._loaded_elsewhere())

    async def find(self, model_id: str) -> CatalogueEntry:
        """The model with an id, ``Org/Name`` or, as SIE's paths have it, ``Org__Name``; or else the loaded
        model with a path.

        Raises:
            UnknownModelError: No model has this id, even after the folder was read again.
            NotAModelError: It is that of a file that is only a part of models.
        """
        if (entry := self._known(model_id)) is None:
            await self._refresh()
            entry = self._known(model_id) or self._loaded_from(model_id)
        if entry is not None:
            return entry
        role = self._scan.parts.get(safe_id(model_id)) if self._scan is not None else None
        raise UnknownModelError(model_id) if role is None else NotAModelError(model_id, role)

    def _loaded_from(self, text: str) -> CatalogueEntry | None:
        """The model that was loaded last from a path."""
        try:
            path = self._paths.resolve(text, "model")
        except PathNotAllowedError:
            return None
        loaded = [model for model in self._registry.models if model.path == path and model.is_usable]
        if not loaded:
            return None
        last = max(loaded, key=lambda model: model.loaded_at)
        return self._known(self.id_of(last.path, last.config) or last.id)

    def drafting_of(self, path: Path, config: ModelConfig) -> DraftSettings:
        """How requests for a file that is loaded with these options draft, whoever loads it."""
        for entry in self._of_file:
            if (entry.path, entry.config) == (path, config):
                return entry.drafting
        return self._drafting

    def id_of(self, path: Path, config: ModelConfig) -> str | None:
        """The first id that means this file with these load options, be it loaded or not."""
        entries = self._by_safe_id.values()
        return next((entry.id for entry in entries if (entry.path, entry.config) == (path, config)), None)

    def _known(self, model_id: str) -> CatalogueEntry | None:
        key = safe_id(model_id)
        if (entry := self._by_safe_id.get(key)) is not None:
            return entry
        return next((entry for entry in self._loaded_elsewhere() if safe_id(entry.id) == key), None)

    def _loaded_elsewhere(self) -> list[CatalogueEntry]:
        """Models of the registry that the catalogue does not name."""
        return [
            self._entry(model.id, model.path, model.config)
            for model in self._registry.models
            if model.failure is None
            and safe_id(model.id) not in self._by_safe_id
            and self.id_of(model.path, model.config) is None
        ]

    async def _refresh(self) -> None:
        if self._folder is None:
            return
        # One read serves all who ask meanwhile.
        async with self._scanning:
            scan = await asyncio.to_thread(_scan_again, self._folder, self._scan)
            if scan is not self._scan:
                self._scan = scan
                self._set(_merged(self._fixed, self._found(scan)))

    def _found(self, scan: FolderScan) -> list[CatalogueEntry]:
        return [self._entry(model.id, model.path, self._config) for model in scan.models]

    def _entry(self, model_id: str, path: Path, config: ModelConfig) -> CatalogueEntry:
        """A model that no file describes."""
        return CatalogueEntry(
            model_id, path, config, drafting=self._drafting, default_sampling=self._default_sampling
        )

    def _set(self, entries: Iterable[CatalogueEntry]) -> None:
        self._by_safe_id = {safe_id(entry.id): entry for entry in entries}


def _scan_again(folder: Path, last: FolderScan | None) -> FolderScan:
    return last if last is not None and not last.is_stale() else models_folder.scan(folder)


def _start_model(settings: Settings) -> list[CatalogueEntry]:
    if settings.model is None:
        return []
    path = Path(settings.model)
    return [
        CatalogueEntry(
            settings.served_model_name or shown(path.stem),
            model_file(path),
            settings.model_config,
            drafting=settings.drafting,
            default_sampling=settings.default_sampling,
        )
    ]


def _entries_of_file(settings: Settings) -> tuple[CatalogueEntry, ...]:
    if settings.catalogue is None:
        return ()
    return read_catalogue(
        settings.catalogue, settings.model_config, settings.drafting, settings.default_sampling
    )


def _merged(first: Iterable[CatalogueEntry], others: Iterable[CatalogueEntry]) -> tuple[CatalogueEntry, ...]:
    by_id = {safe_id(entry.id): entry for entry in first}
    for entry in others:
        former = by_id.setdefault(safe_id(entry.id), entry)
        if former.path == entry.path:
            by_id[safe_id(entry.id)] = entry
        elif former is not entry:
            logger.warning("the model id %s is taken by the model that the server was started with", entry.id)
    return tuple(by_id.values())
