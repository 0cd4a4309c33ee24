"""Answers of an engine that are asked for again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from llmserve.engine import Engine

KeyT = TypeVar("KeyT", bound=Hashable)
AnswerT = TypeVar("AnswerT")

_MAX_KNOWN = 4096


class PerEngine(Generic[KeyT, AnswerT]):
    """Keeps the last answers of each engine."""

    def __init__(self, ask: Callable[[Engine, KeyT], Awaitable[AnswerT]]) -> None:
        self._ask = ask
        self._known: WeakKeyDictionary[Engine, OrderedDict[KeyT, AnswerT]] = WeakKeyDictionary()

    async def of(self, engine: Engine, key: KeyT) -> AnswerT:
        """The answer, known or asked for. Raises what that raises."""
        known = self._known.setdefault(engine, OrderedDict())
        if key not in known:
            known[key] = await self._ask(engine, key)
        answer = known[key]
        known.move_to_end(key)
        if len(known) > _MAX_KNOWN:
            known.popitem(last=False)
        return answer
