"""A turn of the assistant as a chain of segments.

Free text is one segment. Where the turn has to change its rules on the way (reasoning ends, a tool call
begins, another one follows), a segment ends at a cue, and the next one goes on with the tokens so far; the
prefix cache has their cells. A call's name and arguments are segments with constraints of their own, and the
texts around them are the format's: they are put in, not drawn.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from llmserve.assistant.ledger import Ledger
from llmserve.assistant.pieces import CallArguments, CallBegin, Piece, Reasoning, TurnEnd, Words
from llmserve.assistant.reasoning import ReasoningTags
from llmserve.assistant.segments import Cue, Segment, SegmentRequest, find_cues, ids_before
from llmserve.assistant.tool_formats import PLAIN, ToolFormat
from llmserve.assistant.tools import Tool, ToolMode
from llmserve.assistant.trim import Trim
from llmserve.chat import ChatPrompt
from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError, ContextExceededError
from llmserve.sampling_params import SamplingParams
from llmserve.session import Session
from llmserve.types import Completion, FinishReason

_Step = Literal["think", "answer", "constrained", "name", "arguments", "more"]

_ID_LETTERS = string.ascii_letters + string.digits
# An odd number with bits all over (2**64 divided by the golden ratio): seeds of segments differ in all bits.
_SEED_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What a turn may hold."""

    prompt: ChatPrompt
    params: SamplingParams
    """Of the answer, with its constraint. The seed must be set."""
    tools: tuple[Tool, ...] = ()
    """The tools that may be called."""
    mode: ToolMode = "none"
    is_parallel: bool = True
    """Whether there may be several calls."""
    format: ToolFormat = PLAIN
    tags: ReasoningTags | None = None
    at_end: bool = False
    """The output is wanted as a whole."""
    session: Session | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether the answer must match something."""
        params = self.params
        return any(spec is not None for spec in (params.json_schema, params.regex, params.grammar))

    @property
    def is_one_segment(self) -> bool:
        """Whether nothing can change on the way."""
        return self.mode == "none" and self.tags is None


class Turn:
    """A running turn: `begin`, then `pieces`, then `end`."""

    def __init__(self, engine: Engine, plan: TurnPlan) -> None:
        self._engine = engine
        self._plan = plan
        self._ledger = Ledger(plan.params.max_tokens)
        self._ids: list[int] | None = None
        self._step: _Step = "answer"
        self._may_think = False
        self._after_thought = False
        self._num_segments = 0
        self._num_calls = 0
        self._tool: Tool | None = None
        self._segment: Segment | None = None
        self._is_aborted = False
        self._end: TurnEnd | None = None

    async def begin(self) -> Segment:
        """Submits the first segment, whose stream says whether the turn is accepted.

        Raises what `Engine.stream` raises.
        """
        plan = self._plan
        if plan.tags is not None:
            self._may_think = plan.tags.may_open(plan.prompt.text)
        if plan.tags is not None and plan.tags.is_open(plan.prompt.text):
            self._step = "think"
        elif plan.mode == "required":
            self._begin_call()
        self._segment = await self._submit()
        return self._segment

    def abort(self) -> None:
        """Ends the turn within one step."""
        self._is_aborted = True
        if self._segment is not None:
            self._segment.stream.abort()

    async def aclose(self) -> None:
        """Ends what runs without waiting."""
        self._is_aborted = True
        if self._segment is not None:
            await self._segment.stream.aclose()

    @property
    def end(self) -> TurnEnd:
        """How it ended, once all pieces were read. Raises `RuntimeError` before."""
        if self._end is None:
            raise RuntimeError("the turn has not ended")
        return self._end

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The output. Raises what the iteration of a `Stream` raises."""
        while self._end is None:
            if self._segment is None:
                raise RuntimeError("the turn has not begun")
            async with aclosing(self._pieces_of(self._segment)) as pieces:
                async for piece in pieces:
                    yield piece
            if self._end is None and not await self._go_on():
                self._finish("length")

    async def _go_on(self) -> bool:
        """Submits the next segment; false where no room is left for it."""
        if self._ledger.budget == 0:
            return False
        try:
            self._segment = await self._submit()
            await self._segment.stream.accepted()
        except (BudgetTooSmallError, ContextExceededError):
            return False
        return True

    # -- what a segment asks for

    async def _submit(self) -> Segment:
        request = await self._request()
        segment = Segment(self._engine, request, self._plan.session)
        self._num_segments += 1
        if self._is_aborted:
            segment.stream.abort()
        return segment

    async def _request(self) -> SegmentRequest:
        if self._step == "answer":
            return await self._answer_request()
        plan = self._plan
        if self._step == "constrained":
            return self._make(self._params(keep_constraint=True))
        if self._step == "think" and plan.tags is not None:
            params = self._params(stop=(), logprobs=None)
            return self._make(params, await find_cues(self._engine, [plan.tags.close]))
        if self._step == "name":
            pattern = plan.format.name_pattern(tool.name for tool in plan.tools)
            ids = [*await self._base(), *await self._tokens(self._head())]
            return replace(self._make(self._params(regex=pattern, **_CALL)), prompt=ids)
        if self._step == "arguments" and self._tool is not None:
            await self._put(f"{self._head()}{self._tool.name}{plan.format.after_name}")
            schema = json.dumps(self._tool.schema)
            return self._make(self._params(json_schema=schema, **_CALL))
        again = [plan.format.again] if plan.format.again else []
        return self._make(self._params(**_CALL), await find_cues(self._engine, again), _never)

    async def _answer_request(self) -> SegmentRequest:
        plan = self._plan
        texts = [plan.tags.open] if plan.tags is not None and self._may_think else []
        texts += plan.format.triggers if plan.mode == "auto" else ()
        has_brace = plan.mode == "auto" and plan.format.begins_with_brace
        if plan.is_constrained:
            if not texts:
                self._step = "constrained"
                return self._make(self._params(keep_constraint=True))
            # Only reasoning or a call may come before the document.
            return self._make(self._params(stop=()), await self._cues(texts), _never)
        goes_on = _begins_without_brace if has_brace else None
        return self._make(self._params(), await self._cues(texts), goes_on)

    async def _cues(self, texts: list[str]) -> tuple[Cue, ...]:
        return await find_cues(self._engine, texts)

    def _make(
        self,
        params: SamplingParams,
        cues: tuple[Cue, ...] = (),
        goes_on: Callable[[str], bool] | None = None,
    ) -> SegmentRequest:
        prompt = self._plan.prompt if self._ids is None else self._ids
        return SegmentRequest(
            prompt=prompt, params=params, cues=cues, goes_on=goes_on, at_end=self._plan.at_end
        )

    def _params(self, *, keep_constraint: bool = False, **changes: Any) -> SamplingParams:
        params = self._plan.params
        if not keep_constraint:
            changes = {"json_schema": None, "regex": None, "grammar": None, **changes}
        if self._num_segments > 0:
            # Draws are keyed by the number of tokens in the segment: the same seed would repeat them.
            seed = (params.seed or 0) + self._num_segments * _SEED_STEP
            changes |= {"max_tokens": self._ledger.budget, "seed": seed % 2**64}
        return params.replace(**changes) if changes else params

    def _head(self) -> str:
        return self._plan.format.head if self._num_calls == 0 else self._plan.format.next_head

    async def _put(self, text: str) -> None:
        """Puts a text of the format behind the tokens so far."""
        self._ids = [*await self._base(), *await self._tokens(text)]

    async def _tokens(self, text: str) -> list[int]:
        return await self._engine.tokenize(text, add_special=False)

    async def _base(self) -> list[int]:
        if self._ids is None:
            self._ids = await self._engine.tokenize(self._plan.prompt)
        return self._ids

    # -- what comes of a segment

    async def _pieces_of(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        step = self._step
        trim = Trim(
            start=step == "think" or (step == "answer" and self._after_thought),
            end=step == "think" or (step == "answer" and self._plan.mode == "auto"),
        )
        texts: list[str] = []
        if step == "arguments" and self._tool is not None:
            yield CallBegin(self._num_calls, self._call_id(), self._tool.name)
        async with aclosing(segment.deltas()) as deltas:
            async for delta in deltas:
                texts.append(delta.text)
                if step in ("answer", "constrained"):
                    yield Words(trim.push(delta.text), delta.tokens)
                elif step == "think" and (text := trim.push(delta.text)):
                    yield Reasoning(text)
                elif step == "arguments" and delta.text:
                    yield CallArguments(self._num_calls, delta.text)
        if segment.is_dropped:
            self._after_drop(step)
            return
        completion = await segment.completion()
        self._ledger.add(completion, is_reasoning=step == "think")
        cue = segment.cue(completion)
        if step == "answer" and cue is None and (rest := trim.flush()):
            yield Words(rest, ())
        async for piece in self._after(step, completion, cue, "".join(texts)):
            yield piece

    def _after_drop(self, step: _Step) -> None:
        if step == "more":
            self._finish("stop")
        elif self._plan.is_constrained:
            self._step = "constrained"
        else:
            self._begin_call()

    async def _after(
        self, step: _Step, completion: Completion, cue: Cue | None, text: str
    ) -> AsyncGenerator[Piece, None]:
        if completion.finish_reason == "cancelled":
            self._finish("cancelled", completion)
        elif step == "constrained":
            self._finish(completion.finish_reason, completion)
        elif step == "name":
            await self._after_name(completion, text)
        elif step == "arguments":
            await self._after_arguments(completion)
        elif step == "more":
            await self._after_more(completion, cue)
        elif step == "think":
            await self._after_think(completion, cue)
        elif cue is None:
            self._after_answer(completion)
        else:
            async for piece in self._after_cue(completion, cue, text):
                yield piece

    async def _after_think(self, completion: Completion, cue: Cue | None) -> None:
        must_answer = self._plan.is_constrained or self._plan.mode == "required"
        if completion.finish_reason == "length" or (cue is None and not must_answer):
            self._finish(completion.finish_reason, completion)
            return
        await self._keep(completion, cue)
        tags = self._plan.tags
        await self._put((tags.close if tags else "") + ("\n\n" if must_answer else ""))
        self._may_think, self._after_thought = False, True
        if self._plan.mode == "required":
            self._begin_call()
        else:
            self._step = "answer"

    def _after_answer(self, completion: Completion) -> None:
        if self._plan.is_constrained and completion.finish_reason == "stop":
            # It was only to see what comes first, and nothing came.
            self._step = "constrained"
        else:
            self._finish(completion.finish_reason, completion)

    async def _after_cue(self, completion: Completion, cue: Cue, text: str) -> AsyncGenerator[Piece, None]:
        await self._keep(completion, cue)
        tags = self._plan.tags
        if tags is None or cue.text != tags.open:
            self._begin_call()
        elif text.strip():
            # The answer speaks of the tag.
            yield Words(cue.text, ())
            await self._put(cue.text)
            self._may_think = False
        else:
            await self._put(cue.text)
            self._may_think = False
            self._step = "think"

    async def _after_name(self, completion: Completion, text: str) -> None:
        name = text[:-1]
        self._tool = next((tool for tool in self._plan.tools if tool.name == name), None)
        if self._tool is None:
            self._finish("length", completion)
        else:
            self._step = "arguments"

    async def _after_arguments(self, completion: Completion) -> None:
        self._num_calls += 1
        if completion.finish_reason == "length":
            self._finish("length", completion)
        elif not self._plan.is_parallel or self._plan.format.again is None:
            self._finish("stop", completion)
        else:
            await self._keep(completion, None)
            await self._put(self._plan.format.after_arguments)
            self._step = "more"

    async def _after_more(self, completion: Completion, cue: Cue | None) -> None:
        if cue is None:
            self._finish("stop", completion)
        else:
            # The next head has what came before the cue, too.
            self._begin_call()

    async def _keep(self, completion: Completion, cue: Cue | None) -> None:
        ids = await self._base()
        self._ids = [*ids, *await ids_before(self._engine, completion, cue)]

    # -- calls

    def _begin_call(self) -> None:
        tools = self._plan.tools
        self._tool = tools[0] if len(tools) == 1 else None
        self._step = "name" if self._tool is None else "arguments"

    def _call_id(self) -> str:
        letters = "".join(secrets.choice(_ID_LETTERS) for _ in range(9))
        return letters if self._plan.format.has_short_ids else f"call_{letters}"

    def _finish(self, reason: FinishReason, completion: Completion | None = None) -> None:
        self._end = self._ledger.end(
            reason,
            num_calls=self._num_calls,
            is_complete=completion is None or completion.is_complete,
            stop=completion.stop if completion is not None else None,
        )


def _never(words: str) -> bool:
    return False


def _begins_without_brace(words: str) -> bool:
    return not words.startswith("{")


# Of the segments of a call: the constraint says when they end.
_CALL: Mapping[str, Any] = {"stop": (), "logprobs": None, "ignore_eos": False, "min_tokens": 0}
