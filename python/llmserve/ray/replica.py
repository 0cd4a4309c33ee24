"""A replica: the server's application in an actor of Ray."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from llmserve.errors import LlmserveError
from llmserve.ray.calls import Call, Head
from llmserve.ray.exchange import Exchange
from llmserve.server.application import Application
from llmserve.server.models import Model
from llmserve.server.settings import Settings

logger = logging.getLogger(__name__)

MAX_REPORTED = 1000
"""How many sessions, and how many prompts, a replica reports to the routers."""

KEPT_WAIT_S = 10.0
"""How long a session whose replica is gone is waited for: that replica may be saving it."""


class LoadFailedError(RuntimeError):
    """The model of the settings could not be loaded."""


class UnhealthyError(RuntimeError):
    """An engine has died."""


class Replica:
    """Serves calls with an application of its own. No signal is handled here.

    The methods with names of Ray's are called by Ray, in the event loop of the calls.
    """

    def __init__(self, settings: Settings) -> None:
        self._start = _Start()
        self._app = Application(settings, self._start, chains_signals=False)
        self._services = self._app.services
        # The last block of each prompt.
        self._ends: OrderedDict[int, None] = OrderedDict()
        if self._services.kept_sessions is not None:
            self._services.kept_sessions.is_shared = True

    async def start(self) -> None:
        """Loads the model of the settings.

        Raises:
            LoadFailedError: That failed.
        """
        await self._app.startup()
        if (model := self._services.settings.model) is not None:
            try:
                await self._start.over
            except LlmserveError as error:
                await self.end()
                raise LoadFailedError(f"{model}: {error}") from None

    async def end(self) -> None:
        """Saves the sessions and frees the memory."""
        await self._app.shutdown()

    async def serve(
        self, call: Call, *, has_lost_session: bool = False
    ) -> AsyncGenerator[Head | bytes, None]:
        """The answer to a call. ``has_lost_session``: the replica that had its session is gone."""
        if has_lost_session and call.key.session is not None:
            await self._await_session(call.key.session)
        if call.key.blocks:
            self._ends[call.key.blocks[-1]] = None
            self._ends.move_to_end(call.key.blocks[-1])
            if len(self._ends) > MAX_REPORTED:
                self._ends.popitem(last=False)
        async for part in Exchange(self._app, call).answer():
            yield part

    async def check_health(self) -> None:
        """Raises if the replica is to be replaced: an engine has died and does not come back."""
        lack = self._services.readiness.lack()
        if lack is not None and lack.status in ("error", "failed"):
            raise UnhealthyError(lack.reason)

    async def record_routing_stats(self) -> Mapping[str, Any]:
        """What the routers of all handles are told."""
        return {
            "sessions": self._services.sessions.latest_names(MAX_REPORTED),
            "blocks": list(self._ends),
        }

    async def record_autoscaling_stats(self) -> Mapping[str, float]:
        """What decides on the number of replicas."""
        stats = [own for model in self._services.registry.models if (own := model.stats()) is not None]
        return {
            "sequences": float(sum(own.num_preparing + own.num_waiting + own.num_running for own in stats))
        }

    async def _await_session(self, name: str) -> None:
        if self._services.sessions.has_name(name):
            return
        self._services.sessions.lose_elsewhere(name)
        if (kept := self._services.kept_sessions) is not None:
            await kept.wait_for(name, KEPT_WAIT_S)


class _Start:
    """Waits for the first load."""

    def __init__(self) -> None:
        self.over: asyncio.Future[Model] = asyncio.get_running_loop().create_future()

    def on_progress(self, progress: float) -> None:
        """Says nothing: Ray tells that the replica is starting."""

    def on_ready(self, model: Model) -> None:
        """The model is loaded."""
        logger.info("serving %s", model.id)
        self.over.set_result(model)

    def on_failed(self, error: Exception) -> None:
        """The model is not loaded."""
        self.over.set_exception(error)
