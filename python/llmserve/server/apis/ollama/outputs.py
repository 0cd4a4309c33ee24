"""What is generated: a turn, or the text that goes on with a raw prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from llmserve.engine import Engine
from llmserve.server.conversation import Piece, Turn, TurnPlan, Words
from llmserve.server.metrics import requests as metrics
from llmserve.stream import Stream
from llmserve.types import Completion


class Ended(metrics.Ended, Protocol):
    """How an output ended, and at which text."""

    @property
    def stop(self) -> str | None:
        """The stop string that ended it."""


class Output(Protocol):
    """An output that is being generated."""

    def pieces(self) -> AsyncGenerator[Piece, None]:
        """What comes."""

    @property
    def end(self) -> Ended:
        """How it ended, once all pieces have been read."""

    async def extra(self) -> dict[str, Any]:
        """What else the route shows of it at its end."""


class ChatOutput:
    """A turn of a chat."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def pieces(self) -> AsyncGenerator[Piece, None]:
        """As `Turn.pieces`."""
        return self._turn.pieces()

    @property
    def end(self) -> Ended:
        """As `Turn.end`."""
        return self._turn.end

    async def extra(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class PromptOutput(ChatOutput):
    """A turn that answers a prompt. Its `context` is what a later prompt may go on from."""

    async def extra(self) -> dict[str, Any]:
        """The context."""
        return {"context": await self._turn.tokens()}


class RawOutput:
    """What goes on with a raw prompt: nothing but words."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._completion: Completion | None = None

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The words."""
        async for delta in self._stream:
            yield Words(delta.text, delta.tokens)
        self._completion = await self._stream.result()

    @property
    def end(self) -> Completion:
        """The completion."""
        if self._completion is None:
            raise RuntimeError("the output has not ended")
        return self._completion

    async def extra(self) -> dict[str, Any]:
        """Nothing: the client has the whole text."""
        return {}


async def going_on(engine: Engine, plan: TurnPlan, context: Sequence[int] | None) -> TurnPlan:
    """The plan of a turn that comes after the tokens of an earlier one."""
    if not context:
        return plan
    ids = await engine.tokenize(plan.prompt)
    if ids[:1] == [engine.info.bos_token]:
        del ids[0]
    return replace(plan, tokens=[*context, *ids])
