"""Takes sessions from one engine of a model to another."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack

from llmserve.errors import LlmserveError
from llmserve.registry.model import Model
from llmserve.registry.registry import Registry
from llmserve.registry.sessions import NamedSession, SessionTable

logger = logging.getLogger(__name__)


class SessionMoves:
    """Copies a model's sessions to another engine of the same weights: they are token ids."""

    def __init__(self, registry: Registry, sessions: SessionTable) -> None:
        self._registry = registry
        self._sessions = sessions

    def carry_over(self, former: Model, model: Model) -> None:
        """Begins to copy all sessions. A call of one of them under the new model waits until it is there.

        That is when the calls that use the former one are over.
        """
        for name in self._sessions.expired_names(former):
            self._sessions.expire(model, name)
        if model.engine is None:
            return
        for name, old in self._sessions.of_model(former).items():
            new = self._sessions.add(model, name, model.engine.session())
            new.begin_use()
            hold = ExitStack()
            # The former engine stays as long as it has something to copy.
            hold.enter_context(self._registry.use_model(former))
            new.copying = asyncio.create_task(self._copy(old, (model, name, new), hold))

    async def _copy(self, old: NamedSession, to: tuple[Model, str, NamedSession], hold: ExitStack) -> None:
        model, name, new = to
        try:
            with hold:
                await old.idle.wait()
                if model.engine is not None:
                    new.session = model.engine.session(copy=old.session)
        except LlmserveError as error:
            logger.warning("a session could not be taken over: %s", error)
            self._sessions.expire(model, name)
        finally:
            self._sessions.end_use(model, name, new)
            new.copying = None
