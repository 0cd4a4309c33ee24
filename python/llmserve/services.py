"""What the routes of all dialects work with."""

from __future__ import annotations

from dataclasses import dataclass

from llmserve.http.counters import HttpCounters
from llmserve.lifecycle import Lifecycle
from llmserve.paths import AllowedFolder
from llmserve.registry import Registry, SessionMoves, SessionTable
from llmserve.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """One of each for the process."""

    settings: Settings
    registry: Registry
    lifecycle: Lifecycle
    sessions: SessionTable
    session_moves: SessionMoves
    models_folder: AllowedFolder
    sessions_folder: AllowedFolder
    http_counters: HttpCounters

    @classmethod
    def create(cls, settings: Settings) -> Services:
        """Everything as the settings say."""
        registry = Registry(settings.model_config)
        sessions = SessionTable(settings.session_ttl_s, settings.max_sessions)
        registry.on_retire.append(sessions.forget_model)
        return cls(
            settings=settings,
            registry=registry,
            lifecycle=Lifecycle(),
            sessions=sessions,
            session_moves=SessionMoves(registry, sessions),
            sessions_folder=AllowedFolder(settings.sessions_dir, "SESSIONS_DIR"),
            models_folder=AllowedFolder(settings.models_dir, "MODELS_DIR"),
            http_counters=HttpCounters(),
        )
