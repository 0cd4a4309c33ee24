"""The output of one segment as pieces of its turn."""

from __future__ import annotations

from llmserve.server.conversation.pieces import CallArguments, CallBegin, Piece, Reasoning, Words
from llmserve.server.conversation.state import TurnState
from llmserve.server.conversation.trim import Trim
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.types import Delta


class SegmentReader:
    """Turns deltas into pieces, by what the segment is for."""

    def __init__(self, plan: TurnPlan, state: TurnState) -> None:
        self._state = state
        self.step = state.step
        is_thought = self.step == "think"
        self._trim = Trim(
            start=is_thought or (self.step == "answer" and state.has_thought),
            end=is_thought or (self.step == "answer" and plan.mode == "auto"),
        )
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Everything that was read."""
        return "".join(self._texts)

    def begin(self) -> list[Piece]:
        """The piece that comes before the output."""
        state = self._state
        if state.tool is None or not self._begins_call():
            return []
        return [CallBegin(state.num_calls, state.call_id, state.tool.name)]

    def _begins_call(self) -> bool:
        call = self._state.call
        if self.step != "tagged" or call is None:
            return self.step == "arguments"
        is_new, call.is_new = call.is_new, False
        return is_new

    def read(self, delta: Delta) -> list[Piece]:
        """The pieces of a delta."""
        self._texts.append(delta.text)
        state, step = self._state, self.step
        if step in ("answer", "constrained"):
            return [Words(self._trim.push(delta.text), delta.tokens)]
        if step == "think":
            text = self._trim.push(delta.text)
            return [Reasoning(text)] if text else []
        arguments = ""
        if step == "arguments":
            arguments = delta.text
        elif step == "tagged" and state.call is not None:
            arguments = state.call.push(delta.text)
        return [CallArguments(state.num_calls, arguments)] if arguments else []

    def rest(self) -> str:
        """The blanks that were held back at the end of an answer."""
        return self._trim.flush() if self.step == "answer" else ""
