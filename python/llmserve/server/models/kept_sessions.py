"""Keeps named sessions in files while the server is down.

In the folder of sessions, `kept/FINGERPRINT/NAME.session` is a session of the model with that fingerprint. A
file is used once: after a server that was killed, no conversation falls back to an older state unseen. Of
several servers that share the folder, the one that renames a file has it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
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
_POLL_S = 0.1


class KeptSessions:
    """Saves the sessions of all models at the end, and brings back those of each model that is loaded."""

    def __init__(self, folder: Path, registry: Registry, sessions: SessionTable, moves: SessionMoves) -> None:
        """``folder`` is where clients save sessions, too."""
        self._folder = folder / _FOLDER
        self._registry = registry
        self._sessions = sessions
        self._moves = moves
        self.is_shared = False
        """Whether other servers use the folder, too: then each brings back only what it is asked for."""
        registry.on_ready.append(self._bring_back)
        sessions.find_kept = self._bring_back_one

    async def wait_for(self, name: str, limit_s: float) -> None:
        """Waits until another server has kept a session of this name for any model, but not for ever."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        while not await asyncio.to_thread(self._has, name) and loop.time() < end:  # noqa: ASYNC110 - of files
            await asyncio.sleep(_POLL_S)

    def _has(self, name: str) -> bool:
        return any((folder / (name + _SUFFIX)).is_file() for folder in self._folder.glob("*"))

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
        if model.engine is None or self.is_shared:
            return
        there = self._sessions.of_model(model)
        for file in self._folder_of(model.engine).glob("*" + _SUFFIX):
            name = file.name.removesuffix(_SUFFIX)
            if name not in there:
                self._bring_back_one(model, name)

    def _bring_back_one(self, model: Model, name: str) -> bool:
        """Whether there was a file of this session, which is now being brought back."""
        if model.engine is None:
            return False
        file = self._folder_of(model.engine) / (name + _SUFFIX)
        taken = file.with_name(f"{file.name}.{uuid.uuid4().hex}.taken")
        try:
            file.rename(taken)
        except OSError:  # there is none, or another server was faster
            return False
        self._moves.bring(model, name, partial(_load, taken))
        return True

    def _folder_of(self, engine: Engine) -> Path:
        return self._folder / engine.info.fingerprint


async def _load(file: Path, engine: Engine) -> Session:
    session = engine.session()
    try:
        await session.load(file)
    finally:
        await asyncio.to_thread(file.unlink, missing_ok=True)
    return session
