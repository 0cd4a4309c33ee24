"""Drafting of this dialect's requests: `mtp/init` and `mtp/shutdown`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from llmserve.drafting import Drafting
from llmserve.engine import Engine
from llmserve.errors import GenerationError, NoDraftHeadError
from llmserve.server.apis.llamatik.state import Choice, ChosenModel
from llmserve.server.models import Model
from llmserve.server.refusals import OtherLoadRunningError, OtherModelError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Bound:
    """What `mtp/init` asked for, and the head of the engine that was the dialect's last."""

    path: Path
    draft_len: int
    adaptive: bool
    engine: Engine | None
    drafting: Drafting | None


class Mtp:
    """The draft head of the dialect's model, bound or not. Other dialects' requests do not use it.

    It stays bound where `params` reloads the model: the new engine's head is opened by the first request that
    needs it. `init` of another file and `shutdown` release it.
    """

    def __init__(self, model: ChosenModel) -> None:
        self._model = model
        self._bound: _Bound | None = None
        # The lock is held while a head is being opened. `_follow` may release what is bound meanwhile.
        self._changing = asyncio.Lock()
        model.on_adopt.append(self._follow)

    async def init(self, path: Path, draft_len: int, adaptive: bool) -> None:
        """Binds the head of the loaded model, whose path this must be, in the place of what is bound.

        Raises:
            OtherLoadRunningError: A model is being loaded.
            NotInitializedError: No model is loaded.
            OtherModelError: Another model is loaded.
            NoDraftHeadError: The model has no head; what is bound stays.
            GenerationError: The draft context cannot be created; what is bound stays.
        """
        async with self._changing:
            self._check(path)
            with self._model.use() as (_, engine):
                drafting = await engine.open_drafting("mtp", draft_len, adaptive)
            try:
                # `init` of another file or `shutdown` may have come in between.
                self._check(path)
            except BaseException:
                drafting.close()
                raise
            self._release()
            self._bound = _Bound(path, draft_len, adaptive, engine, drafting)

    async def shutdown(self) -> None:
        """Releases what is bound; requests that run go on drafting.

        Raises:
            OtherLoadRunningError: A model is being loaded.
        """
        async with self._changing:
            if self._model.is_loading:
                raise OtherLoadRunningError
            self._release()

    async def drafting(self, model: Model, engine: Engine) -> Drafting | Literal[False] | None:
        """What a request drafts with, for the engine's `drafting` argument.

        Without `mtp/init` only prompt lookup, where the operator has chosen that for the model.
        """
        bound = self._bound
        if bound is not None and bound.engine is not engine:
            bound = await self._rebind(model, engine)
        if bound is not None and bound.drafting is not None:
            return bound.drafting
        default = engine.drafting
        return None if default is not None and default.method == "prompt_lookup" else False

    async def _rebind(self, model: Model, engine: Engine) -> _Bound | None:
        """Opens the head of the engine that took the place of the one before."""
        async with self._changing:
            bound = self._bound
            if bound is None or bound.engine is engine:
                return bound
            if self._model.current is not model:
                return None  # the one before, which has calls that waited for each other
            try:
                drafting = await engine.open_drafting("mtp", bound.draft_len, bound.adaptive)
            except (NoDraftHeadError, GenerationError) as error:
                logger.warning("mtp is off for the reloaded model: %s", error)
                self._release()
                return None
            if self._bound is not bound:
                drafting.close()
                return None
            self._release()
            self._bound = replace(bound, engine=engine, drafting=drafting)
            return self._bound

    def _check(self, path: Path) -> None:
        if self._model.is_loading:
            raise OtherLoadRunningError
        if self._model.model().path != path:
            raise OtherModelError("modelPath")

    def _follow(self, choice: Choice | None) -> None:
        """Is told which model is the dialect's now."""
        bound = self._bound
        if bound is None:
            return
        self._release()
        if choice is not None and choice.path == bound.path:
            self._bound = replace(bound, engine=None, drafting=None)

    def _release(self) -> None:
        if self._bound is not None and self._bound.drafting is not None:
            self._bound.drafting.close()
        self._bound = None
