"""A turn of the assistant as a chain of segments.

Free text is one segment. Where the turn has to change its rules on the way (reasoning ends, a tool call
begins, another one follows), a segment ends at a cue, and the next one continues with the tokens so far; the
prefix cache has their cells. A call's name and arguments are segments with constraints of their own, and the
texts around them are the format's: they are inserted, not drawn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

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
from llmserve.types import Completion, Delta, FinishReason

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
        self.num_tokens = 0
        """Tokens that have been read."""
        self._segment: Segment | None = None
        self._num_dropped = 0
        """The tokens that began a call, until a segment of its own has replaced them."""
        self._aborted = anyio.Event()
        self._on_output: Callable[[], object] | None = None
        self._end: TurnEnd | None = None
        self._last: Completion | None = None
        """The output of the segment that ended the turn."""

    async def begin(self) -> None:
        """Submits the first segment.

        Raises what `Engine.stream` raises.
        """
        self._requests.check_room(self._ledger.budget)
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
    def ended(self) -> TurnEnd | None:
        """How the turn ended, once all pieces have been read."""
        return self._end

    def observe(self, on_output: Callable[[], object]) -> None:
        """Has a function called whenever new tokens are received, before they can be read."""
        self._on_output = on_output
        if self._segment is not None:
            self._segment.stream.observe(on_output)

    @property
    def end(self) -> TurnEnd:
        """How the turn ended, once all pieces have been read. Raises `RuntimeError` before."""
        if self._end is None:
            raise RuntimeError("the turn has not ended")
        return self._end

    async def tokens(self) -> list[int]:
        """The prompt and what the turn added to it, once it has ended."""
        last = [] if self._last is None else [token.id for token in self._last.tokens]
        return [*await self._state.settled(), *self._state.carry.ids, *last]

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
                self.num_tokens += len(delta.tokens)
                if delta.progress is not None:
                    yield Words("", (), delta.progress)
                    continue
                for piece in reader.read(delta):
                    yield piece
            for piece in await self._after_segment(segment, reader):
                yield piece
            if not self._is_over() and not await self._go_on():
                for piece in self._cut():
                    yield piece

    async def _go_on(self) -> bool:
        """Submits the next segment; false if no room is left for it."""
        if self._ledger.budget == 0 or self._state.is_nameless:
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
                self._num_dropped = 0
                return True

    def _cut(self) -> list[Piece]:
        """Ends a turn that has no room left; returns what has been written and not shown."""
        carried, stop = self._state.carried()
        pieces = SegmentReader(self._plan, self._state).unshown(carried)
        self._ledger.restore(self._num_dropped)
        self._finish("length" if stop is None else "stop", stop=stop)
        return pieces

    def _start(self, request: SegmentRequest) -> Segment:
        self._segment = Segment(self._engine, request, self._plan.session)
        if self._on_output is not None:
            self._segment.stream.observe(self._on_output)
        if self._aborted.is_set():
            self._segment.stream.abort()
        return self._segment

    async def _after_segment(self, segment: Segment, reader: SegmentReader) -> list[Piece]:
        """Chooses what comes next; returns what the segment still shows at its end."""
        step = reader.step
        completion = await segment.completion()
        if segment.dropped is not None:
            await self._after_drop(step, segment.dropped, completion)
            return []
        self._ledger.add(completion, is_reasoning=step == "think")
        if step == "think":
            self._state.count_thought(completion.usage.completion_tokens)
        cue = segment.cue(completion)
        if step == "tagged":
            index = self._state.num_calls
            shown = await self._after_tagged(completion, cue, reader.text)
            return [CallArguments(index, shown)] if shown else []
        if step == "answer" and cue is None and reader.is_blank and (completion.stop or "x")[0].isspace():
            # The client is not shown these blanks, so they end nothing.
            await self._state.cross(completion, None)
            return []
        is_tag = cue is not None and cue.text not in self._plan.triggers
        rest = reader.rest() if cue is None or (is_tag and self._state.has_words) else ""
        await self._after(step, completion, cue, reader.text)
        return [Words(rest, ())] if rest else []

    async def _after_drop(self, step: Step, dropped: Delta, completion: Completion) -> None:
        self._ledger.drop(completion)
        await self._state.drop_carry()
        if step == "more":
            self._finish("stop")
        elif self._plan.is_constrained:
            self._state.step = "constrained"
        else:
            self._num_dropped = len(dropped.tokens)
            self._state.begin_call(dropped.text)

    async def _after(self, step: Step, completion: Completion, cue: Cue | None, text: str) -> None:
        """Chooses what comes next."""
        state, reason = self._state, completion.finish_reason
        if reason == "cancelled" or step == "constrained":
            self._finish(reason, completion)
        elif step == "name":
            state.begun = state.head + text
            state.choose_tool(text)
        elif step == "arguments":
            await self._after_arguments(completion)
        elif step == "think":
            await self._after_think(completion, cue)
        elif step == "more":
            if cue is None:
                self._finish("stop", completion)
            else:
                # The next head has what came before the cue, too.
                state.begin_call(cue.text)
        elif cue is not None:
            await self._after_cue(completion, cue)
        elif self._plan.is_constrained:
            # The segment was only to show what comes first, and nothing came.
            await state.drop_carry()
            state.step = "constrained"
        else:
            self._finish(reason, completion)

    async def _after_think(self, completion: Completion, cue: Cue | None) -> None:
        state, plan = self._state, self._plan
        is_open = cue is not None and plan.tags is not None and cue.text == plan.tags.open
        is_at_limit = completion.finish_reason == "length" and state.thinking_left == 0
        goes_on = plan.must_answer or (is_at_limit and self._ledger.budget != 0)
        if cue is None and not goes_on:
            self._finish(completion.finish_reason, completion)
        elif is_open or (cue is not None and not plan.must_answer):
            await self._cross(completion, cue)
        else:
            await state.keep(completion, cue)
            await state.close_thought()

    async def _after_cue(self, completion: Completion, cue: Cue) -> None:
        if cue.text in self._plan.triggers:
            await self._state.keep(completion, cue)
            self._state.begin_call(cue.text)
        elif self._plan.tags is not None and cue.text in self._plan.tags.hidden:
            await self._state.cross(completion, cue)
            self._state.has_words = False
            self._state.has_opened = cue.text == self._plan.tags.hidden[0]
        elif self._state.has_words and cue.text in self._plan.params.stop:
            self._finish(completion.finish_reason, completion)
        elif self._state.has_words:
            # A tag behind words is text, if it shows at all.
            await self._state.cross(completion, cue, is_shown=True)
        else:
            await self._cross(completion, cue)

    async def _cross(self, completion: Completion, cue: Cue | None) -> None:
        """Goes on behind a tag of reasoning."""
        await self._state.cross(completion, cue)
        self._state.tag = cue.text if cue is not None else ""
        if cue is not None and self._plan.tags is not None and cue.text == self._plan.tags.open:
            self._state.begin_thought()
        else:
            self._state.end_thought()

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

    def _finish(
        self, reason: FinishReason, completion: Completion | None = None, *, stop: str | None = None
    ) -> None:
        self._last = completion
        self._end = self._ledger.end(
            reason,
            num_calls=self._state.num_calls,
            is_complete=completion is None or completion.is_complete,
            stop=completion.stop if completion is not None else stop,
        )
