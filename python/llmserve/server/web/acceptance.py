"""How long the head of a stream may wait for the engine's word."""

from __future__ import annotations

import anyio

from llmserve.stream import Stream


async def accepted_within(stream: Stream, seconds: float | None) -> None:
    """Waits until a request is accepted, but no longer than ``seconds``, if that is a number.

    A refusal in that time can still be answered with its status. A call that waits longer for its turn in a
    session has its place in the queue: its head goes out, and a refusal becomes the stream's last event.

    Raises:
        RequestError: The request was refused.
    """
    with anyio.move_on_after(seconds):
        await stream.accepted()
