"""Asks engines which tokens have cells, and publishes what has changed.

The engines keep no journal, and no step of theirs waits for anybody: whoever asks late learns the difference.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from llmserve.engine import Engine
from llmserve.errors import LlmserveError
from llmserve.server.kv_events.blocks import ModelBlocks
from llmserve.server.models import Model, Registry
from llmserve.server.start_error import StartError
from llmserve.types import Stats

if TYPE_CHECKING:
    from llmserve.server.kv_events.publisher import Publisher

logger = logging.getLogger(__name__)

PERIOD_S = 0.1
"""Seconds between two looks at the engines."""
_MAX_SHARE = 0.05
"""The share of the time that looks may take; with a large cache they become rarer."""


class KvEventsStartError(StartError):
    """KV events cannot be published."""


class KvEvents:
    """Publishes events between `start` and `stop`, if there is an address for them."""

    def __init__(self, registry: Registry, address: str | None, pod: str) -> None:
        """``pod`` is this server's name in topics."""
        self._registry = registry
        self._address = address
        self._pod = pod
        self._publisher: Publisher | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_ending = asyncio.Event()
        self._known: dict[Model, _Known] = {}

    def start(self) -> None:
        """Opens the socket and begins to watch.

        Raises:
            KvEventsStartError: A package is missing, or the address cannot be used.
        """
        if self._address is None:
            return
        try:
            import zmq

            from llmserve.server.kv_events.publisher import Publisher
        except ImportError as error:
            raise KvEventsStartError(
                f"KV events need packages that are not installed ({error.name or error})\n"
                "hint: pip install msgpack pyzmq, or unset LLMSERVE_KV_EVENTS"
            ) from error
        try:
            self._publisher = Publisher(self._address, self._pod)
        except zmq.ZMQError as error:
            raise KvEventsStartError(
                f"KV events cannot be published at {self._address}: {error}\n"
                "hint: LLMSERVE_KV_EVENTS is an address such as tcp://*:5557"
            ) from error
        self._watching = asyncio.create_task(self._watch(self._publisher))

    async def stop(self) -> None:
        """Tells that all blocks are gone, and closes the socket."""
        if self._watching is None or self._publisher is None:
            return
        self._is_ending.set()
        await self._watching
        self._forget(self._publisher, set())
        # Waits for what has been sent.
        await asyncio.to_thread(self._publisher.close)
        self._publisher = self._watching = None

    async def _watch(self, publisher: Publisher) -> None:
        while not self._is_ending.is_set():
            started = time.monotonic()
            await self._look(publisher)
            took = time.monotonic() - started
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_ending.wait(), max(PERIOD_S, took / _MAX_SHARE))

    async def _look(self, publisher: Publisher) -> None:
        usable = ((model, model.engine) for model in self._registry.models if model.is_usable)
        living = {model: engine for model, engine in usable if engine is not None}
        self._forget(publisher, set(living))
        for model, engine in living.items():
            known = self._known.setdefault(model, _Known(model.id))
            try:
                await known.look(engine, publisher)
            except LlmserveError as error:  # it has just ended, which the next look sees
                logger.debug("no KV events of %s: %s", model.id, error)

    def _forget(self, publisher: Publisher, living: set[Model]) -> None:
        for model in self._known.keys() - living:
            known = self._known.pop(model)
            if events := known.blocks.clear():
                publisher.publish(known.model_id, events)


class _Known:
    """What routers know of a model."""

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id
        self.blocks = ModelBlocks()
        self._seen: tuple[float, ...] | None = None

    async def look(self, engine: Engine, publisher: Publisher) -> None:
        """Publishes what has changed in an engine's cells.

        Raises:
            LlmserveError: The engine has ended.
        """
        seen = _traces(engine.stats())
        if seen == self._seen:
            return
        cached = await engine.cached_tokens()
        if events := await asyncio.to_thread(self.blocks.update, cached):
            publisher.publish(self.model_id, events)
        self._seen = seen


def _traces(stats: Stats) -> tuple[float, ...]:
    """What changes whenever cells do."""
    ends = (stats.requests_cancelled, stats.requests_failed, stats.preemptions)
    return (stats.steps, *ends, stats.num_used_cells, stats.parked_bytes)
