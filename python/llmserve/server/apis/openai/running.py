"""Runs the turns of a request: they are accepted together, and end with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from llmserve.server.apis.openai.errors import DIALECT
from llmserve.server.conversation import Turn, TurnPlan
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.refusals import FieldError, ServerStoppingError
from llmserve.server.services import Services
from llmserve.server.web.acceptance import accepted_within


@asynccontextmanager
async def running_turns(
    services: Services, used: UsedModel, plans: Sequence[TurnPlan], session: str | None
) -> AsyncGenerator[list[Turn], None]:
    """The turns, accepted, which end with the context. A session holds what the turn was.

    Raises:
        RequestError: One was refused.
        ServerStoppingError: The server stops.
    """
    lifecycle = services.lifecycle
    async with AsyncExitStack() as stack:
        turns: list[Turn] = []
        segments = []
        call = None
        if session is not None:
            if len(plans) > 1:
                raise FieldError("n", f"must be 1 where a session is named, got {len(plans)}")
            call = stack.enter_context(services.sessions.call(used.model, session, DIALECT, goes_on=False))
            # Until the end of the turn: each of its segments replaces the whole session.
            opened = await stack.enter_async_context(call.submitting())
            plans = [replace(plan, session=opened) for plan in plans]
        for plan in plans:
            turn = Turn(used.engine, plan)
            if call is not None:
                call.attach(turn)
            stack.push_async_callback(turn.aclose)
            stack.enter_context(lifecycle.running(turn.abort))
            segments.append(await turn.begin())
            turns.append(turn)
        for plan, segment in zip(plans, segments, strict=True):
            # Refusals are raised here, while the answer can still have their status.
            await accepted_within(segment.stream, None if plan.at_end else services.settings.sse_ping_s)
        if lifecycle.is_stopping:
            raise ServerStoppingError
        yield turns


def choice_plans(plan: TurnPlan, n: int) -> list[TurnPlan]:
    """Plans of `n` choices, which differ in what keys their draws."""
    return [replace(plan, params=plan.params.replace(choice_index=index)) for index in range(n)]
