"""The output of a turn in the parts that Ollama's answers have."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import orjson

from llmserve.engine import Engine
from llmserve.server.apis.ollama.outputs import Output
from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Words
from llmserve.server.generation.logprobs import ShownTokens, load_texts, scored
from llmserve.types import Token


@dataclass(slots=True)
class Part:
    """What one line of a stream shows, or a whole answer."""

    text: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Part) -> None:
        """Appends what comes later."""
        self.text += other.text
        self.thinking += other.thinking
        self.calls += other.calls
        self.logprobs += other.logprobs

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.text or self.thinking or self.calls or self.logprobs)


class Parts:
    """Makes parts of pieces. A call is shown once its arguments are whole."""

    def __init__(self, engine: Engine, output: Output, *, has_logprobs: bool) -> None:
        self._engine = engine
        self.output = output
        self._shown = ShownTokens() if has_logprobs else None
        self._call: CallBegin | None = None
        self._arguments = ""

    async def read(self) -> AsyncGenerator[Part, None]:
        """The parts that have something to show."""
        async with aclosing(self.output.pieces()) as pieces:
            async for piece in pieces:
                if not (part := await self._part(piece)).is_empty:
                    yield part
        last = Part(calls=self._whole_call(), logprobs=await self._scored_rest())
        if not last.is_empty:
            yield last

    async def _part(self, piece: Piece) -> Part:
        if isinstance(piece, Words):
            return Part(text=piece.text, logprobs=await self._scored(piece))
        if isinstance(piece, Reasoning):
            return Part(thinking=piece.text)
        if isinstance(piece, CallBegin):
            whole = self._whole_call()
            self._call = piece
            return Part(calls=whole)
        if isinstance(piece, CallArguments):
            self._arguments += piece.text
        return Part()

    def _whole_call(self) -> list[dict[str, Any]]:
        call, text = self._call, self._arguments
        self._call, self._arguments = None, ""
        if call is None:
            return []
        try:
            arguments = orjson.loads(text)
        except orjson.JSONDecodeError:  # cut off by the limit before its arguments began
            return []
        function = {"index": call.index, "name": call.name, "arguments": arguments}
        return [{"id": call.id, "function": function}]

    async def _scored(self, words: Words) -> list[dict[str, Any]]:
        return [] if self._shown is None else await self._render(self._shown.push(words.text, words.tokens))

    async def _scored_rest(self) -> list[dict[str, Any]]:
        return [] if self._shown is None else await self._render(self._shown.flush(self.output.end.stop))

    async def _render(self, tokens: list[Token]) -> list[dict[str, Any]]:
        return scored(tokens, await load_texts(self._engine, tokens)) if tokens else []
