"""Whether the server should be sent requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from llmserve.server.lifecycle import Lifecycle
from llmserve.server.model_files import model_file
from llmserve.server.models import Registry
from llmserve.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Unready:
    """Why the server is not ready."""

    status: Literal["loading", "failed", "error", "draining"]
    reason: str


class Readiness:
    """Ready is a server that stays, whose engines live and whose first model, if it has one, is loaded.

    Models that requests load need not be.
    """

    def __init__(self, settings: Settings, registry: Registry, lifecycle: Lifecycle) -> None:
        self._settings = settings
        self._registry = registry
        self._lifecycle = lifecycle

    def lack(self) -> Unready | None:
        """What is missing."""
        if not self._lifecycle.is_staying:
            return Unready("draining", "the server is about to end")
        dead = [model.id for model in self._registry.models if model.is_dead]
        if dead:
            return Unready("error", f"the engine of {', '.join(dead)} has died")
        return None if self._first_path is None else self._lack_of_first(self._first_path)

    @cached_property
    def _first_path(self) -> Path | None:
        path = self._settings.model
        return None if path is None else model_file(path)

    def _lack_of_first(self, path: Path) -> Unready | None:
        model = self._registry.find(path, self._registry.default_config)
        if model is None:
            return Unready("loading", f"{path.stem} has not been loaded")
        if model.failure is not None:
            return Unready("failed", f"{model.id} could not be loaded")
        if not model.is_usable:
            return Unready("loading", f"{model.id} is being loaded: {model.load.progress:.0%}")
        return None
