"""What a dialect asks for: a call on a model, with one output or several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from llmserve._binding.loaded import Prompt
from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import Turn, TurnPlan
from llmserve.server.generation.deadlines import Deadlines
from llmserve.server.metrics import Ended
from llmserve.server.models import Model, SessionCall
from llmserve.server.request_notes import Operation
from llmserve.server.trust.tenants import current_tenant
from llmserve.stream import Stream
from llmserve.types import ModelInfo


class Running(Protocol):
    """An output that is being generated: a `Stream`, or a `Turn` of several."""

    # Type checkers do not see through the descriptor that it is in a `Stream`.
    @property
    def accepted(self) -> Any:
        """A coroutine function: waits until the engine has accepted it. Raises its refusal."""

    def abort(self) -> None:
        """Ends the output within one step."""

    async def aclose(self) -> None:
        """Ends the output without waiting."""

    @property
    def ended(self) -> Ended | None:
        """How it ended, once that is known."""

    def observe(self, on_output: Callable[[], object]) -> None:
        """Has a function called whenever new tokens are received."""


def is_context_full(ended: Ended, info: ModelInfo) -> bool:
    """Whether an output was cut off because the context had no room for more."""
    return ended.finish_reason != "stop" and ended.usage.total_tokens >= info.context_length


R = TypeVar("R", bound=Running)

Start: TypeAlias = Callable[[Engine, SessionCall | None], Awaitable[R]]
"""Submits one output to the engine, in the session of the call if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[R]):
    """A call: what is to be generated."""

    dialect: str
    model: Model
    starts: Sequence[Start[R]]
    """One start for each output. A call in a session has one output."""
    prompts: Sequence[str] = ()
    """How the client calls the prompt of each output, if there are several."""
    is_stream: bool
    """Whether the head of the answer goes out before the output, and so does not wait for long."""
    operation: Operation = "text_completion"
    session: str | None = None
    goes_on: bool = True
    """Whether the call needs what the session contains: then an expired session is refused."""
    deadlines: Deadlines | None = None
    """Within which it is submitted. Its outputs look after their own."""
    holds_session: bool = False
    """Whether calls that come later wait for the end of this one instead of its submission."""


def raw_text(prompt: Prompt, params: SamplingParams, *, at_end: bool, append: bool = True) -> Start[Stream]:
    """A raw prompt, which is appended to the session of the call, or replaces it."""

    async def start(engine: Engine, call: SessionCall | None) -> Stream:
        session = None if call is None else call.session
        return engine.stream(
            prompt, params, session=session, append=append, tenant=current_tenant(), at_end=at_end
        )

    return start


def turns(
    plan: TurnPlan, *, dialect: str, model: Model, session: str | None = None, num_choices: int = 1
) -> Call[Turn]:
    """A call for turns of one plan, which differ in what keys their draws. A session becomes the turn.

    Each segment of a turn replaces the whole session, so it is held to the end.
    """
    plans = [
        # The choices share their prompt, and one of them tells how likely it is.
        replace(plan, params=plan.params.replace(choice_index=index, prompt_logprobs=None)) if index else plan
        for index in range(num_choices)
    ]
    return Call(
        dialect=dialect,
        model=model,
        operation="chat",
        starts=[_turn(plan) for plan in plans],
        is_stream=not plan.at_end,
        session=session,
        goes_on=False,
        holds_session=True,
    )


def _turn(plan: TurnPlan) -> Start[Turn]:
    async def start(engine: Engine, call: SessionCall | None) -> Turn:
        running = Turn(engine, plan if call is None else replace(plan, session=call.session))
        await running.begin()
        return running

    return start
