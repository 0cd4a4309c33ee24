"""How long the head of a stream may wait for the engine's word."""

from __future__ import annotations

import asyncio

from llmserve.server.web.tasks import end_task
from llmserve.stream import Stream


async def accepted_within(stream: Stream, seconds: float | None) -> None:
    """Waits until a request is accepted, but no longer than ``seconds``, if that is a number.

    A refusal in that time can still be answered with its status. A call that waits longer for its turn in a
    session has its place in the queue: its head goes out, and a refusal becomes the stream's last event.

    Raises:
        RequestError: The request was refused.
    """
    waiting = asyncio.create_task(_wait(stream))
    try:
        await asyncio.wait({waiting}, timeout=seconds)
        if waiting.done():
            waiting.result()
    finally:
        await end_task(waiting)


async def _wait(stream: Stream) -> None:
    await stream.accepted()
