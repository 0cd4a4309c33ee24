"""An engine whose model writes a given text in given tokens, for turns whose every token matters."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from llmserve import BudgetTooSmallError, Engine
from llmserve.sampling_params import SamplingParams
from llmserve.types import Completion, Delta, FinishReason, Timings, Token, Usage
from serving.scripted_constraints import constrained_length

PROMPT = "P"
_END = Token(id=0, bytes=b"", text="")


class ScriptedEngine:
    """Writes the pieces of a script one after another, wherever a request goes on with the text so far."""

    def __init__(self, script: Sequence[str], *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self.info = SimpleNamespace(control_tokens=(), context_length=1000)
        self._script = "".join(script)
        self._ends = [sum(map(len, script[: index + 1])) for index in range(len(script))]
        self._ids: dict[int, str] = {}
        self._known: dict[str, int] = {}

    async def tokenize(self, text: Any, **_: Any) -> list[int]:
        return [self._id(char) for char in (text if isinstance(text, str) else text.text)]

    def stream(self, prompt: Any, params: SamplingParams, begun: bytes = b"", **_: Any) -> ScriptedStream:
        given = len(PROMPT) if not isinstance(prompt, list) else len("".join(map(self._ids.get, prompt)))  # type: ignore[arg-type]
        begin = given - len(PROMPT)
        pieces = []
        for end in self._ends:
            if end > begin:
                pieces.append(self._script[begin:end])
                begin = end
        if self._is_strict and (length := constrained_length(params, "".join(pieces))) is not None:
            pieces = _cut(pieces, length)
        tokens = [Token(id=self._id(text), bytes=text.encode(), text=text) for text in pieces]
        return ScriptedStream(
            [*tokens, _END],
            params,
            begun.decode(),
        )

    def _id(self, text: str) -> int:
        id_ = self._known.setdefault(text, len(self._known) + 1)
        self._ids[id_] = text
        return id_


class ScriptedStream:
    """One request: all of its output at once."""

    def __init__(self, tokens: Sequence[Token], params: SamplingParams, text: str) -> None:
        self._limit = params.max_tokens or 1000
        is_constrained = params.regex is not None or params.json_schema is not None
        self._needs_too_much = is_constrained and self._limit < 3
        drawn: list[Token] = []
        reason: FinishReason = "stop"
        stop = None
        for token in tokens:
            if len(drawn) == self._limit:
                reason = "length"
                break
            drawn.append(token)
            text += token.text
            found = [(text.find(other), other) for other in params.stop if other in text]
            if found:
                place, stop = min(found)
                text = text[:place]
                break
        self._deltas = [Delta(text=text, tokens=tuple(drawn))]
        usage = Usage(prompt_tokens=1, completion_tokens=len(drawn))
        self._completion = Completion(
            text=text,
            tokens=tuple(drawn),
            finish_reason=reason,
            usage=usage,
            timings=Timings(),
            seed=1,
            stop=stop,
        )

    async def accepted(self) -> int:
        if self._needs_too_much:
            raise BudgetTooSmallError("too small", minimum=3, budget=self._limit)
        return 1

    async def __anext__(self) -> Delta:
        if not self._deltas:
            raise StopAsyncIteration
        return self._deltas.pop()

    async def result(self) -> Completion:
        return self._completion

    def abort(self) -> None:
        self._deltas = []

    async def aclose(self) -> None:
        self.abort()


def _cut(pieces: Sequence[str], length: int) -> list[str]:
    """The pieces up to a length of all text."""
    cut = []
    for piece in pieces:
        if length > 0:
            cut.append(piece[:length])
            length -= len(piece)
    return cut


def scripted(*script: str, is_strict: bool = False) -> Engine:
    """An engine that writes this; ``is_strict``: constraints end a request, and must take what it writes."""
    return cast("Engine", ScriptedEngine(script, is_strict=is_strict))
