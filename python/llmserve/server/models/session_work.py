"""Work on a whole session, such as saving it, in the order of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from llmserve.server.models.sessions import SessionCall
from llmserve.server.web.tasks import end_tasks
from llmserve.session import Session

T = TypeVar("T")


async def work_in_order(call: SessionCall, run: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
    """The result of work that follows the calls before this one.

    Later calls are submitted while it waits for its turn. Raises what `run` raises.
    """
    job: asyncio.Task[T] | None = None
    try:
        async with call.in_order() as session:
            job = asyncio.create_task(run(session))
            await asyncio.sleep(0)  # its first step gives it to the engine
        return await job
    finally:
        if job is not None:
            await end_tasks(job)
