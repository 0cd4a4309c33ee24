"""One choice of a chat answer, as a message and as deltas."""

from __future__ import annotations

from typing import Any

from llmserve.engine import Engine
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.logprobs import chat_logprobs
from llmserve.server.apis.openai.reports import StreamReports
from llmserve.server.apis.openai.turn_output import TurnOutput
from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Tag, Turn, Words
from llmserve.server.generation.logprobs import ShownTokens, load_texts


class ChatChoice:
    """Collects the pieces of a turn and shows them."""

    def __init__(
        self,
        index: int,
        turn: Turn,
        *,
        engine: Engine,
        request: ChatRequest,
    ) -> None:
        self.index = index
        self.turn = TurnOutput(turn, request)
        self.reports = StreamReports(request)
        self._engine = engine
        self._is_apart = request.reasoning_format != "none"
        self._is_in_content = request.reasoning_format in ("none", "deepseek-legacy")
        self._shown = ShownTokens() if request.logprobs else None
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []
        self._logprobs: list[Any] = []

    async def add(self, piece: Piece) -> dict[str, Any] | None:
        """Takes a piece in; the choice of the chunk that shows it, if there is anything to show."""
        if isinstance(piece, Reasoning | Tag):
            return self._add_reasoning(piece)
        if isinstance(piece, Words):
            return await self._add_words(piece)
        if isinstance(piece, CallBegin):
            call = {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}
            self._calls.append(call)
            self._arguments.append([])
            return self._chunk({"tool_calls": [{"index": piece.index, **call}]})
        self._arguments[piece.index].append(piece.text)
        return self._chunk({"tool_calls": [_more_arguments(piece)]})

    def _add_reasoning(self, piece: Reasoning | Tag) -> dict[str, Any] | None:
        delta = {}
        if self._is_in_content:
            self._content.append(piece.text)
            delta["content"] = piece.text
        if self._is_apart and isinstance(piece, Reasoning):
            self._reasoning.append(piece.text)
            delta["reasoning_content"] = piece.text
        return self._chunk(delta) if delta else None

    async def _add_words(self, words: Words) -> dict[str, Any] | None:
        self._content.append(words.text)
        shown = None
        if self._shown is not None:
            shown = await self._render(self._shown.push(words.text, words.tokens))
        if not words.text and not shown:
            return None
        return self._chunk({"content": words.text}, shown)

    async def _render(self, tokens: list[Any]) -> dict[str, Any] | None:
        if not tokens:
            return None
        rendered = chat_logprobs(tokens, await load_texts(self._engine, tokens))
        self._logprobs += rendered["content"]
        return rendered

    def first(self) -> dict[str, Any]:
        """The choice of the first chunk."""
        return self._chunk({"role": "assistant", "content": None})

    def nothing(self) -> dict[str, Any]:
        """The choice of a chunk that only reports."""
        return self._chunk({})

    async def last(self) -> dict[str, Any]:
        """The choice of the last chunk."""
        rest = await self._rest()
        return {**self._chunk({}, rest), "finish_reason": self.finish_reason}

    async def _rest(self) -> dict[str, Any] | None:
        if self._shown is None:
            return None
        return await self._render(self._shown.flush(self.turn.end.stop))

    async def whole(self) -> dict[str, Any]:
        """The choice of a whole answer."""
        await self._rest()
        content = "".join(self._content)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["content"] = content or None
            message["tool_calls"] = self._whole_calls()
        shown = None if self._shown is None else {"content": self._logprobs, "refusal": None}
        return {
            "index": self.index,
            "message": message,
            "logprobs": shown,
            "finish_reason": self.finish_reason,
        }

    def _whole_calls(self) -> list[dict[str, Any]]:
        return [
            {**call, "function": {**call["function"], "arguments": "".join(arguments)}}
            for call, arguments in zip(self._calls, self._arguments, strict=True)
        ]

    @property
    def finish_reason(self) -> str:
        """`tool_calls` if calls ended the turn."""
        end = self.turn.end
        if end.finish_reason == "stop" and end.num_calls:
            return "tool_calls"
        return end.finish_reason

    def _chunk(self, delta: dict[str, Any], shown: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": self.index, "delta": delta, "logprobs": shown, "finish_reason": None}


def _more_arguments(piece: CallArguments) -> dict[str, Any]:
    return {"index": piece.index, "function": {"arguments": piece.text}}
