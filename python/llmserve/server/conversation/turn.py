"""A turn of the assistant as a chain of segments.

Free text is one segment. Where the turn has to change its rules on the way (reasoning ends, a tool call
begins, another one follows), a segment ends at a cue, and the next one continues with the tokens so far; the
prefix cache has their cells. A call's name and arguments are segments with constraints of their own, and the
texts around them are the format's: they are inserted, not drawn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio

from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError, ContextExceededError, QueueFullError
from llmserve.server.conversation.ledger import Ledger
from llmserve.server.conversation.pieces import CallArguments, Piece, TurnEnd, Words
from llmserve.server.conversation.reading import SegmentReader
from llmserve.server.conversation.requests import SegmentRequests
from llmserve.server.conversation.segments import Cue, Segment, SegmentRequest
from llmserve.server.conversation.state import Step, TurnState
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.types import Completion, FinishReason

_MAX_WAIT_S = 1.0
"""How long a turn waits before it asks again for a place in a full queue, in seconds."""


class Turn:
    """A running turn: `begin`, then `pieces`, then `end`."""

    def __init__(self, engine: Engine, plan: TurnPlan) -> None:
        self._engine = engine
        self._plan = plan
        self._state = TurnState(engine, plan)
        self._requests = SegmentRequests(engine, plan, self._state)
        self._ledger = Ledger(plan.params.max_tokens)
        self._segment: Segment | None = None
        self._aborted = anyio.Event()
        self._end: TurnEnd | None = None

    async def begin(self) -> None:
        """Submits the first segment.

        Raises what `Engine.stream` raises.
        """
        self._start(await self._requests.next(self._ledger.budget))
        self._state.num_segments += 1

    async def accepted(self) -> int:
        """The number of prompt tokens, once the first segment has its place in the queue.

        Raises what `Stream.accepted` raises.
        """
        if self._segment is None:
            raise RuntimeError("the turn has not begun")
        return await self._segment.stream.accepted()

    def abort(self) -> None:
        """Ends the turn within one step."""
        self._aborted.set()
        if self._segment is not None:
            self._segment.stream.abort()

    async def aclose(self) -> None:
        """Ends the running segment without waiting."""
        self._aborted.set()
        if self._segment is not None:
            await self._segment.stream.aclose()

    @property
    def end(self) -> TurnEnd:
        """How the turn ended, once all pieces have been read. Raises `RuntimeError` before."""
        if self._end is None:
            raise RuntimeError("the turn has not ended")
        return self._end

    def _is_over(self) -> bool:
        return self._end is not None

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The output. Raises what the iteration of a `Stream` raises."""
        while not self._is_over():
            if self._segment is None:
                raise RuntimeError("the turn has not begun")
            segment, reader = self._segment, SegmentReader(self._plan, self._state)
            for piece in reader.begin():
                yield piece
            while (delta := await segment.next()) is not None:
                for piece in reader.read(delta):
                    yield piece
            for piece in await self._after_segment(segment, reader):
                yield piece
            if not self._is_over() and not await self._go_on():
                self._finish("length")

    async def _go_on(self) -> bool:
        """Submits the next segment; false if no room is left for it."""
        if self._ledger.budget == 0:
            return False
        try:
            request = await self._requests.next(self._ledger.budget)
        except BudgetTooSmallError:
            return False
        while True:
            try:
                await self._start(request).stream.accepted()
            except (BudgetTooSmallError, ContextExceededError):
                return False
            except QueueFullError as error:
                # The turn had its place in the queue, and its output so far must not be lost.
                with anyio.move_on_after(min(error.retry_after_s, _MAX_WAIT_S)):
                    await self._aborted.wait()
                if self._aborted.is_set():
                    self._finish("cancelled")
                    return True
            else:
                self._state.num_segments += 1
                return True

    def _start(self, request: SegmentRequest) -> Segment:
        self._segment = Segment(self._engine, request, self._plan.session)
        if self._aborted.is_set():
            self._segment.stream.abort()
        return self._segment

    async def _after_segment(self, segment: Segment, reader: SegmentReader) -> list[Piece]:
        """Chooses what comes next; returns what the segment still shows at its end."""
        step = reader.step
        if segment.is_dropped:
            self._after_drop(step)
            return []
        completion = await segment.completion()
        self._ledger.add(completion, is_reasoning=step == "think")
        cue = segment.cue(completion)
        if step == "tagged":
            index = self._state.num_calls
            shown = await self._after_tagged(completion, cue, reader.text)
            return [CallArguments(index, shown)] if shown else []
        words = [reader.rest()] if cue is None else []
        words.append(await self._after(step, completion, cue, reader.text) or "")
        return [Words(text, ()) for text in words if text]

    def _after_drop(self, step: Step) -> None:
        if step == "more":
            self._finish("stop")
        elif self._plan.is_constrained:
            self._state.step = "constrained"
        else:
            self._state.begin_call()

    async def _after(self, step: Step, completion: Completion, cue: Cue | None, text: str) -> str | None:
        """Chooses what comes next; returns a cue's text if it is part of the answer after all."""
        state, reason = self._state, completion.finish_reason
        if reason == "cancelled" or step == "constrained":
            self._finish(reason, completion)
        elif step == "name":
            # The last character is the first after the name. A name that was cut short does not count.
            if not state.choose_tool(text[:-1]):
                self._finish("length", completion)
        elif step == "arguments":
            await self._after_arguments(completion)
        elif step == "think":
            await self._after_think(completion, cue)
        elif step == "more":
            if cue is None:
                self._finish("stop", completion)
            else:
                # The next head has what came before the cue, too.
                state.begin_call()
        elif cue is not None:
            return await self._after_cue(completion, cue, text)
        elif self._plan.is_constrained and reason == "stop":
            # The segment was only to show what comes first, and nothing came.
            state.step = "constrained"
        else:
            self._finish(reason, completion)
        return None

    async def _after_think(self, completion: Completion, cue: Cue | None) -> None:
        state, plan = self._state, self._plan
        must_answer = plan.is_constrained or plan.mode == "required"
        if completion.finish_reason == "length" or (cue is None and not must_answer):
            self._finish(completion.finish_reason, completion)
            return
        await state.keep(completion, cue)
        await state.put((plan.tags.close if plan.tags else "") + ("\n\n" if must_answer else ""))
        state.may_think, state.has_thought = False, True
        state.step = "answer"
        if plan.mode == "required":
            state.begin_call()

    async def _after_cue(self, completion: Completion, cue: Cue, text: str) -> str | None:
        state, tags = self._state, self._plan.tags
        await state.keep(completion, cue)
        if tags is None or cue.text != tags.open:
            state.begin_call()
            return None
        await state.put(cue.text)
        state.may_think = False
        if text.strip():
            # The answer merely mentions the tag.
            return cue.text
        state.step = "think"
        return None

    async def _after_arguments(self, completion: Completion) -> None:
        is_cut = completion.finish_reason == "length"
        if not is_cut:
            await self._state.keep(completion, None)
        await self._after_call(is_cut=is_cut)

    async def _after_tagged(self, completion: Completion, cue: Cue | None, text: str) -> str:
        call = self._state.call
        if call is None:
            raise RuntimeError("there is no call")
        if completion.finish_reason == "cancelled":
            self._finish("cancelled", completion)
            return ""
        shown = await call.take(text, completion, cue)
        shown += await call.settle(self._ledger.budget)
        if call.step == "done":
            await self._after_call(is_cut=call.is_cut)
        return shown

    async def _after_call(self, *, is_cut: bool) -> None:
        state, plan = self._state, self._plan
        state.num_calls += 1
        if is_cut:
            self._finish("length")
        elif not plan.is_parallel or plan.format.again is None:
            self._finish("stop")
        else:
            await state.put(state.after_arguments)
            state.step = "more"

    def _finish(self, reason: FinishReason, completion: Completion | None = None) -> None:
        self._end = self._ledger.end(
            reason,
            num_calls=self._state.num_calls,
            is_complete=completion is None or completion.is_complete,
            stop=completion.stop if completion is not None else None,
        )
