"""Takes sessions from one engine of a model to another."""

from __future__ import annotations

from llmserve.registry.model import Model
from llmserve.registry.registry import Registry
from llmserve.registry.sessions import SessionTable


class SessionMoves:
    """Copies a model's sessions to another engine of the same weights: they are token ids."""

    def __init__(self, registry: Registry, sessions: SessionTable) -> None:
        self._registry = registry
        self._sessions = sessions

    def carry_over(self, former: Model, model: Model) -> None:
        """Begins to copy all sessions. Calls of them under the new model wait until theirs is there."""
        # seam
