"""Ollama's `keep_alive`: unloads models that have been idle for as long as their last request said."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

from llmserve.server.models import IDLE_PIN, Model, Registry

FOR_EVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Stands for no end: clients expect a time."""

_RETRY_S = 1.0
"""How soon a model that is in use when its time is over is looked at again."""


class Keeping:
    """The times of the models that have any. What the server's start keeps stays loaded all the same."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._seconds: WeakKeyDictionary[Model, float] = WeakKeyDictionary()
        self._timers: WeakKeyDictionary[Model, asyncio.TimerHandle] = WeakKeyDictionary()

    def after_use(self, model: Model, seconds: float | None) -> None:
        """Notes how long a model is kept from now on; `None`: as long as before."""
        if seconds is not None:
            self._seconds[model] = seconds
        self._arm(model, self._seconds.get(model, math.inf))

    def expires_at(self, model: Model) -> datetime:
        """When a model will be unloaded if nobody uses it."""
        seconds = self._seconds.get(model, math.inf)
        if self._is_kept(model) or math.isinf(seconds):
            return FOR_EVER
        rest = model.last_used + seconds - time.monotonic()
        try:
            return datetime.now(UTC) + timedelta(seconds=rest)
        except OverflowError:
            return FOR_EVER

    def _arm(self, model: Model, seconds: float) -> None:
        if (timer := self._timers.pop(model, None)) is not None:
            timer.cancel()
        if math.isfinite(seconds):
            self._timers[model] = asyncio.get_running_loop().call_later(seconds, self._look, model)

    def _look(self, model: Model) -> None:
        """Unloads a model whose time is over. Requests of other APIs use it, too, and arm nothing."""
        self._timers.pop(model, None)
        if model not in self._registry.models or self._is_kept(model):
            return
        rest = model.last_used + self._seconds.get(model, math.inf) - time.monotonic()
        if model.num_uses or rest > 0:
            self._arm(model, max(rest, _RETRY_S if model.num_uses else 0))
        else:
            self._registry.unpin(model.path, IDLE_PIN, model.config)

    @staticmethod
    def _is_kept(model: Model) -> bool:
        return bool(model.pins - {IDLE_PIN})
