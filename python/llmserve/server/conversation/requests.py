"""What each segment of a turn asks of the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llmserve._binding.loaded import Prompt
from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation.argument_rules import FreeText
from llmserve.server.conversation.argument_values import constraint_of
from llmserve.server.conversation.call_price import affordable
from llmserve.server.conversation.segments import SegmentRequest, find_cues, leading_token
from llmserve.server.conversation.state import TurnState
from llmserve.server.conversation.tagged_call import TaggedCall
from llmserve.server.conversation.tools import Tool
from llmserve.server.conversation.turn_plan import NO_RESERVE, TurnPlan

# An odd number with bits all over (2**64 divided by the golden ratio): seeds of segments differ in all bits.
_SEED_STEP = 0x9E3779B97F4A7C15

# Parameters of the segments of a call: the constraint says when they end.
_CALL: Mapping[str, Any] = {"stop": (), "logprobs": None, "ignore_eos": False, "min_tokens": 0}


class SegmentRequests:
    """Makes the requests of one turn."""

    def __init__(self, engine: Engine, plan: TurnPlan, state: TurnState) -> None:
        self._engine = engine
        self._plan = plan
        self._state = state
        if plan.tokens is not None:
            state.ids = list(plan.tokens)

    async def next(self, budget: int | None) -> SegmentRequest:
        """The request of the state's step, with a limit of tokens (`None`: up to the context length)."""
        plan, state = self._plan, self._state
        params = self._params(budget)
        room = await self._thinking_room(budget)
        left = [limit for limit in (room, state.thinking_left) if limit is not None]
        if state.step == "think" and 0 in left:
            await state.close_thought()
        if state.step == "constrained":
            return await self._constrained(params)
        if state.step == "think":
            tags = [plan.tags.close, plan.tags.open] if plan.tags else []
            limited = _limited(params, min(left, default=None))
            return await self._free(limited.replace(stop=(), logprobs=None), tags)
        if state.step == "name":
            state.candidates, room = self._candidates(budget)
            pattern = plan.format.name_pattern(tool.name for tool in state.candidates)
            prompt = await state.with_text(state.head)
            return self._make(params.replace(regex=pattern, **{**_CALL, "max_tokens": room}), prompt)
        if state.step == "arguments" and state.tool is not None:
            await state.put(f"{state.head}{state.tool.name}{state.after_name}")
            arguments, parts = plan.arguments.get(state.tool.name), plan.format.tags
            if arguments is None or parts is None:
                return self._make(params.replace(json_schema=json.dumps(state.tool.schema), **_CALL))
            context_length = self._engine.info.context_length
            state.call = TaggedCall(state, parts, arguments, context_length)
            state.call.check_start(budget)
            state.step = "tagged"
        if state.step == "tagged" and state.call is not None:
            return await self._tagged(params, state.call)
        if state.step == "more":
            again = [plan.format.again] if plan.format.again else []
            return await self._free(params.replace(**_CALL), again, _never)
        return await self._answer(params, room)

    def check_room(self, budget: int | None) -> None:
        """Raises `BudgetTooSmallError` if the budget has no room for what must come."""
        plan, minimum = self._plan, self._plan.reserve.drawn
        if self._state.must_call:
            affordable(plan.tools, plan.prices, budget)
        elif budget is not None and budget < minimum:
            raise BudgetTooSmallError(
                f"a document takes {minimum} tokens, but only {budget} may be generated",
                minimum=minimum,
                budget=budget,
            )

    def _candidates(self, budget: int | None) -> tuple[tuple[Tool, ...], int | None]:
        """The tools that the next call may name, and the budget of the name."""
        plan, state = self._plan, self._state
        try:
            fitting = affordable(plan.tools, plan.prices, budget)
        except BudgetTooSmallError:
            if state.must_call:
                raise
            # The call that the model has begun is shown as far as it comes.
            state.call_fits = False
            return plan.tools, budget
        state.call_fits = True
        return fitting

    async def _thinking_room(self, budget: int | None) -> int | None:
        """How many tokens may come before a document or a required call."""
        plan, state = self._plan, self._state
        if plan.reserve is NO_RESERVE or state.step not in ("think", "answer"):
            return budget
        length = len(await state.settled()) + len(state.carry.tokens)
        limit = self._engine.info.context_length
        return plan.reserve.room(budget, min(limit, plan.params.max_total_tokens or limit) - length)

    async def _answer(self, params: SamplingParams, room: int | None) -> SegmentRequest:
        plan, state = self._plan, self._state
        texts = list(plan.triggers)
        if plan.tags is not None and not plan.is_constrained:
            texts += () if state.has_words else (plan.tags.open, plan.tags.close)
        elif plan.tags is not None and state.may_think:
            texts.append(plan.tags.open)
        if plan.tags is not None and (texts or not plan.is_constrained):
            texts += plan.tags.hidden
        if plan.is_constrained and (not texts or room == 0):
            state.step = "constrained"
            return await self._constrained(params)
        if plan.is_constrained:
            # Only reasoning or a call may come before the document.
            return await self._free(_limited(params, room).replace(stop=()), texts, _never)
        has_brace = plan.has_brace and not state.has_words
        return await self._free(params, texts, _begins_without_brace if has_brace else None)

    async def _constrained(self, params: SamplingParams) -> SegmentRequest:
        plan, state = self._plan, self._state
        if plan.tags is not None and plan.tags.hidden and not state.has_opened:
            await state.put(plan.tags.hidden[0])
        return self._make(_bound(params, plan))

    async def _tagged(self, params: SamplingParams, call: TaggedCall) -> SegmentRequest:
        params = params.replace(max_tokens=max(0, call.room(params.max_tokens)), **_CALL)
        tags, argument = self._plan.format.tags, call.argument
        if argument is None or tags is None:
            return self._make(params.replace(regex=call.key_pattern()))
        if isinstance(argument.rule, FreeText):
            # Some models leave out the line end.
            closers = (
                leading_token(self._engine, text(call.after_value)) for text in (str.rstrip, str.strip)
            )
            return await self._free(params, dict.fromkeys(closers))
        return self._make(params.replace(**constraint_of(argument, tags)))

    async def _free(
        self, params: SamplingParams, texts: Iterable[str], goes_on: Callable[[str], bool] | None = None
    ) -> SegmentRequest:
        return SegmentRequest(
            prompt=self._prompt(),
            begun=self._state.carry.data,
            params=params,
            cues=await find_cues(self._engine, texts),
            goes_on=goes_on,
            at_end=self._plan.at_end,
        )

    def _make(self, params: SamplingParams, prompt: Prompt | None = None) -> SegmentRequest:
        return SegmentRequest(prompt=prompt or self._prompt(), params=params, at_end=self._plan.at_end)

    def _prompt(self) -> Prompt:
        ids = self._state.ids
        return self._plan.prompt if ids is None else [*ids, *self._state.carry.ids]

    def _params(self, budget: int | None) -> SamplingParams:
        """The turn's parameters without their constraint."""
        params = self._plan.params
        seed, prompt_logprobs = params.seed, params.prompt_logprobs
        is_first = self._state.num_segments == 0
        if not is_first:
            # Draws are keyed by the number of tokens in the segment: the same seed would repeat them.
            seed = ((seed or 0) + self._state.num_segments * _SEED_STEP) % 2**64
            prompt_logprobs = None
        free = params.replace(
            json_schema=None,
            regex=None,
            grammar=None,
            seed=seed,
            prompt_logprobs=prompt_logprobs,
            prompt_progress=params.prompt_progress and is_first,
        )
        return _limited(free, budget)


def _bound(params: SamplingParams, plan: TurnPlan) -> SamplingParams:
    """The parameters with the constraint of the answer."""
    given = plan.params
    return params.replace(json_schema=given.json_schema, regex=given.regex, grammar=given.grammar)


def _limited(params: SamplingParams, max_tokens: int | None) -> SamplingParams:
    if max_tokens is None:
        return params
    return params.replace(max_tokens=max_tokens, min_tokens=min(params.min_tokens, max_tokens))


def _never(words: str) -> bool:
    return False


def _begins_without_brace(words: str) -> bool:
    return not words.startswith("{")
