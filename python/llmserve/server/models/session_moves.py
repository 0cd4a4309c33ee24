"""Moves sessions from one engine of a model to another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from llmserve.engine import Engine
from llmserve.errors import LlmserveError
from llmserve.server.models.model import Model
from llmserve.server.models.registry import Registry
from llmserve.server.models.sessions import NamedSession, SessionTable
from llmserve.session import Session

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
            # The former engine stays while there is something to copy.
            self.bring(model, name, partial(_copy, old), self._registry.use_model(former))

    def bring(
        self,
        model: Model,
        name: str,
        bring: Callable[[Engine], Awaitable[Session]],
        hold: AbstractContextManager[object] | None = None,
    ) -> None:
        """Puts a session under a name at once, and what it holds as soon as that has been brought.

        Calls of the session wait for it. ``hold`` is left at the end.
        """
        with ExitStack() as holds:
            engine = holds.enter_context(self._registry.use_model(model))
            if hold is not None:
                holds.enter_context(hold)
            new = self._sessions.add(model, name, engine.session())
            new.begin_use()
            new.copying = asyncio.create_task(self._bring(bring(engine), (model, name, new), holds.pop_all()))

    async def _bring(
        self, content: Awaitable[Session], to: tuple[Model, str, NamedSession], holds: ExitStack
    ) -> None:
        model, name, new = to
        try:
            with holds:
                new.session = await content
        except LlmserveError as error:
            logger.warning("a session could not be moved: %s", error)
            new.has_failed = True
            self._sessions.expire(model, name)
        finally:
            self._sessions.end_use(model, name, new)
            new.copying = None


async def _copy(old: NamedSession, engine: Engine) -> Session:
    await old.idle.wait()
    return engine.session(copy=old.session)


def _has_same_weights(one: Model, other: Model) -> bool:
    engines = one.engine, other.engine
    prints = {engine.info.fingerprint for engine in engines if engine is not None}
    return len(prints) == 1
