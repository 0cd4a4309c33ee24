"""What the routes of all dialects work with."""

from __future__ import annotations

from dataclasses import dataclass

from llmserve.http.counters import HttpCounters
from llmserve.lifecycle import Lifecycle
from llmserve.paths import AllowedFolder
from llmserve.registry import Registry
from llmserve.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """One of each for the process."""

    settings: Settings
    registry: Registry
    lifecycle: Lifecycle
    models_folder: AllowedFolder
    http_counters: HttpCounters

    @classmethod
    def create(cls, settings: Settings) -> Services:
        """Everything as the settings say."""
        return cls(
            settings=settings,
            registry=Registry(settings.model_config),
            lifecycle=Lifecycle(),
            models_folder=AllowedFolder(settings.models_dir, "MODELS_DIR"),
            http_counters=HttpCounters(),
        )
