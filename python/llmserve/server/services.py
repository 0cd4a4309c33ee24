"""The services that the routes of all dialects work with."""

from __future__ import annotations

from dataclasses import dataclass

from llmserve.server.conversation import ReasoningLimit
from llmserve.server.generation import GenerationService
from llmserve.server.kv_events import KvEvents
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.metrics import RequestMetrics
from llmserve.server.model_files import model_file
from llmserve.server.models import (
    Catalogue,
    KeptSessions,
    MemoryLimit,
    OnDemand,
    Registry,
    SessionMoves,
    SessionTable,
)
from llmserve.server.paths import AllowedFolder
from llmserve.server.readiness import Readiness
from llmserve.server.rpc_counters import RpcCounters
from llmserve.server.settings import Settings
from llmserve.server.tracing import Tracing
from llmserve.server.web.counters import HttpCounters


@dataclass(frozen=True, slots=True)
class Services:
    """One of each service for the process."""

    settings: Settings
    registry: Registry
    catalogue: Catalogue
    on_demand: OnDemand
    lifecycle: Lifecycle
    readiness: Readiness
    sessions: SessionTable
    session_moves: SessionMoves
    kept_sessions: KeptSessions | None
    """`None` without a folder for sessions."""
    generation: GenerationService
    models_folder: AllowedFolder
    sessions_folder: AllowedFolder
    request_metrics: RequestMetrics
    http_counters: HttpCounters
    rpc_counters: RpcCounters
    tracing: Tracing
    kv_events: KvEvents

    @classmethod
    def create(cls, settings: Settings) -> Services:
        """The services for the given settings.

        Raises:
            SettingsError: The catalogue's file is wrong.
        """
        registry = Registry(settings.model_config)
        sessions = SessionTable(settings.session_ttl_s, settings.max_sessions)
        moves = SessionMoves(registry, sessions)
        registry.on_retire.append(sessions.forget_model)
        registry.on_ready.append(moves.bring_back)
        folder = settings.sessions_dir
        kept = None if folder is None else KeptSessions(folder, registry, sessions, moves)
        catalogue = Catalogue(settings, registry)
        registry.drafting_of = catalogue.drafting_of
        registry.name_of = catalogue.id_of
        if settings.model_memory_bytes is not None:
            MemoryLimit(registry, moves, settings.model_memory_bytes)
        lifecycle = Lifecycle()
        request_metrics = RequestMetrics()
        return cls(
            settings=settings,
            registry=registry,
            catalogue=catalogue,
            on_demand=OnDemand(registry, catalogue, wait_s=settings.load_wait_s),
            lifecycle=lifecycle,
            readiness=Readiness(settings, registry, lifecycle),
            sessions=sessions,
            session_moves=moves,
            kept_sessions=kept,
            generation=GenerationService(
                registry,
                sessions,
                lifecycle,
                request_metrics,
                settings.sse_ping_s,
                ReasoningLimit(
                    None if settings.reasoning_budget < 0 else settings.reasoning_budget,
                    settings.reasoning_budget_message,
                ),
            ),
            sessions_folder=AllowedFolder(settings.sessions_dir, "SESSIONS_DIR"),
            models_folder=AllowedFolder(settings.models_dir, "MODELS_DIR", model_file),
            request_metrics=request_metrics,
            http_counters=HttpCounters(),
            rpc_counters=RpcCounters(),
            tracing=Tracing(is_on=settings.traces),
            kv_events=KvEvents(registry, settings.kv_events, settings.kv_events_pod),
        )
