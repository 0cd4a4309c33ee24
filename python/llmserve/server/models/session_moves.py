"""Moves sessions from one engine of a model to another."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack

from llmserve.errors import LlmserveError
from llmserve.server.models.model import Model
from llmserve.server.models.registry import Registry
from llmserve.server.models.sessions import NamedSession, SessionTable

logger = logging.getLogger(__name__)


class SessionMoves:
    """Copies a model's sessions to another engine of the same weights: they are token ids."""

    def __init__(self, registry: Registry, sessions: SessionTable) -> None:
        self._registry = registry
        self._sessions = sessions
        self._unloaded: list[Model] = []

    def keep(self, model: Model) -> None:
        """Keeps the sessions of a model that is about to be unloaded until it comes back or they expire.

        What is kept of the model itself is its closed engine: no weights and no cells.
        """
        self._unloaded = [kept for kept in self._unloaded if self._sessions.of_model(kept)]
        if self._sessions.of_model(model):
            self._unloaded.append(model)

    def bring_back(self, model: Model) -> None:
        """Gives a newly loaded model the sessions that were kept of it."""
        for former in self._unloaded:
            if former.path == model.path and former.config == model.config:
                self._unloaded.remove(former)
                if _has_same_weights(former, model):
                    self.carry_over(former, model)
                else:
                    self._sessions.forget_model(former)
                return

    def carry_over(self, former: Model, model: Model) -> None:
        """Begins to copy all sessions. A call of a session under the new model waits until its copy is there,
        which is when the calls that use the former session are over.
        """
        for name in self._sessions.expired_names(former):
            self._sessions.expire(model, name)
        if model.engine is None:
            return
        for name, old in self._sessions.of_model(former).items():
            new = self._sessions.add(model, name, model.engine.session())
            new.begin_use()
            hold = ExitStack()
            # The former engine stays while there is something to copy.
            hold.enter_context(self._registry.use_model(former))
            hold.enter_context(self._registry.use_model(model))
            new.copying = asyncio.create_task(self._copy(old, (model, name, new), hold))

    async def _copy(self, old: NamedSession, to: tuple[Model, str, NamedSession], hold: ExitStack) -> None:
        model, name, new = to
        try:
            with hold:
                await old.idle.wait()
                if model.engine is not None:
                    new.session = model.engine.session(copy=old.session)
        except LlmserveError as error:
            logger.warning("a session could not be moved: %s", error)
            self._sessions.expire(model, name)
        finally:
            self._sessions.end_use(model, name, new)
            new.copying = None


def _has_same_weights(one: Model, other: Model) -> bool:
    engines = one.engine, other.engine
    prints = {engine.info.fingerprint for engine in engines if engine is not None}
    return len(prints) == 1
