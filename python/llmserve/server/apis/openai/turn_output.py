"""A turn as a client asks to see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from llmserve.server.apis.openai.schema import GenerationFields
from llmserve.server.apis.openai.time_limit import time_limit
from llmserve.server.conversation import CallBegin, Piece, Turn, TurnEnd, Words


class TurnOutput:
    """The output of a turn within the client's time limit, with the stop string if that is shown."""

    def __init__(self, turn: Turn, fields: GenerationFields) -> None:
        self._turn = turn
        self._limit = time_limit(fields)
        self._shown_stops = fields.sampling.get("stop", ()) if fields.include_stop_str_in_output else ()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The output. Raises what `Turn.pieces` raises."""
        async with aclosing(self._turn.pieces()) as pieces:
            async for piece in pieces:
                yield piece
                if self._limit is not None and self._limit.ends_with(_text(piece)):
                    self._turn.abort()
        if self._is_stop_shown:
            yield Words(self._turn.end.stop or "", ())

    @property
    def num_tokens(self) -> int:
        """Tokens that have been read."""
        return self._turn.num_tokens

    @property
    def end(self) -> TurnEnd:
        """How the turn ended, once all pieces have been read. Its stop string is one that is not shown."""
        end = self._turn.end
        if self._is_stop_shown:
            end = replace(end, stop=None)
        is_timed_out = self._limit is not None and self._limit.has_passed
        return replace(end, finish_reason="length") if is_timed_out and end.finish_reason != "stop" else end

    @property
    def _is_stop_shown(self) -> bool:
        return self._turn.end.stop in self._shown_stops


def _text(piece: Piece) -> str:
    """The text of a piece, which the name of a call has not."""
    return "" if isinstance(piece, CallBegin) else piece.text
