"""Keeps named sessions in files while the server is down.

In the folder of sessions, `kept/FINGERPRINT/NAME.session` is a session of the model with that fingerprint. A
file is used once: after a server that was killed, no conversation falls back to an older state unseen.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from llmserve.engine import Engine
from llmserve.errors import LlmserveError
from llmserve.server.models.model import Model
from llmserve.server.models.registry import Registry
from llmserve.server.models.session_moves import SessionMoves
from llmserve.server.models.sessions import SessionTable
from llmserve.session import Session

logger = logging.getLogger(__name__)

_FOLDER = "kept"
_SUFFIX = ".session"


class KeptSessions:
    """Saves the sessions of all models at the end, and brings back those of each model that is loaded."""

    def __init__(self, folder: Path, registry: Registry, sessions: SessionTable, moves: SessionMoves) -> None:
        """``folder`` is where clients save sessions, too."""
        self._folder = folder / _FOLDER
        self._registry = registry
        self._sessions = sessions
        self._moves = moves
        registry.on_ready.append(self._bring_back)

    async def save(self) -> None:
        """Saves all sessions. One that cannot be saved is logged and left out."""
        for model in self._registry.models:
            if model.engine is not None and model.is_usable:
                await self._save(model, model.engine)

    async def _save(self, model: Model, engine: Engine) -> None:
        folder = self._folder_of(engine)
        num_kept = 0
        for name, named in self._sessions.of_model(model).items():
            try:
                await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
                await named.session.save(folder / (name + _SUFFIX))
            except (LlmserveError, OSError) as error:
                logger.warning("the session %r of %s could not be kept: %s", name, model.id, error)
            else:
                num_kept += 1
        if num_kept:
            logger.info("sessions of %s are kept in SESSIONS_DIR: %d", model.id, num_kept)

    def _bring_back(self, model: Model) -> None:
        if model.engine is None:
            return
        there = self._sessions.of_model(model)
        for file in self._folder_of(model.engine).glob("*" + _SUFFIX):
            name = file.name.removesuffix(_SUFFIX)
            if name not in there:
                self._moves.bring(model, name, partial(_load, file))

    def _folder_of(self, engine: Engine) -> Path:
        return self._folder / engine.info.fingerprint


async def _load(file: Path, engine: Engine) -> Session:
    session = engine.session()
    try:
        await session.load(file)
    finally:
        await asyncio.to_thread(file.unlink, missing_ok=True)
    return session
