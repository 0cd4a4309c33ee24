"""The output of one segment as pieces of its turn."""

from __future__ import annotations

from llmserve.server.conversation.pieces import CallArguments, CallBegin, Piece, Reasoning, Tag, Words
from llmserve.server.conversation.state import TurnState
from llmserve.server.conversation.trim import Trim
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.types import Delta


class SegmentReader:
    """Turns deltas into pieces, by what the segment is for."""

    def __init__(self, plan: TurnPlan, state: TurnState) -> None:
        self._state = state
        self.step = state.step
        self._hides_blanks = not plan.keeps_blanks
        is_thought = self.step == "think"
        self._trim = Trim(
            start=self._hides_blanks and (not state.has_reasoning if is_thought else self._begins_answer()),
            end=(is_thought and self._hides_blanks) or (self.step == "answer" and plan.mode == "auto"),
            lead=plan.tags.lead if is_thought and plan.tags is not None else "",
        )
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Everything that was read."""
        return "".join(self._texts)

    def _begins_answer(self) -> bool:
        """Whether an answer to which reasoning has led has nothing to show yet."""
        return self.step == "answer" and self._state.has_thought and not self._state.has_words

    @property
    def is_blank(self) -> bool:
        """Whether all that was read is left out: the blanks between reasoning and answer."""
        return self._hides_blanks and self._begins_answer() and not self.text.strip()

    def begin(self) -> list[Piece]:
        """The pieces that come before the output."""
        state, pieces = self._state, self._inserted()
        if state.tool is not None and self._begins_call():
            state.begun = ""
            pieces.append(CallBegin(state.num_calls, state.call_id, state.tool.name))
        return pieces

    def _inserted(self) -> list[Piece]:
        state, pieces = self._state, list[Piece]()
        if state.inserted:
            pieces.append(Reasoning(state.inserted))
        if state.tag:
            pieces.append(Tag(state.tag))
        state.inserted = state.tag = ""
        return pieces

    def _begins_call(self) -> bool:
        call = self._state.call
        if self.step != "tagged" or call is None:
            return self.step == "arguments"
        is_new, call.is_new = call.is_new, False
        return is_new

    def read(self, delta: Delta) -> list[Piece]:
        """The pieces of a delta."""
        self._texts.append(delta.text)
        return self._shown(delta)

    def _shown(self, delta: Delta) -> list[Piece]:
        state, step = self._state, self.step
        if step in ("answer", "constrained"):
            text = self._trim.push(delta.text)
            state.has_words |= bool(text.strip())
            return [Words(text, delta.tokens)]
        if step == "think":
            text = self._trim.push(delta.text)
            state.has_reasoning |= bool(text.strip())
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

    def unshown(self, carried: str) -> list[Piece]:
        """What was written for a segment that does not fit any more: text, or the beginning of a call."""
        state, pieces = self._state, self._inserted()
        if carried:
            pieces += self._shown(Delta(text=carried, tokens=()))
        if not state.begun:
            return pieces
        if state.tool is None:
            return [*pieces, Words(state.begun, ())]
        pieces.append(CallBegin(state.num_calls, state.call_id, state.tool.name))
        state.num_calls += 1
        return pieces
