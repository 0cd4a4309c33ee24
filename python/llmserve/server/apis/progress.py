"""How dialects show the progress of a load."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from llmserve.server.models import LoadTicket


async def whole_percents(ticket: LoadTicket) -> AsyncGenerator[float, None]:
    """The progress of a load, at most once per percent: above 0 at once, 1 only when the model is ready."""
    shown = 0
    async for progress in ticket.progress():
        percent = min(max(int(progress * 100), 1), 99)
        if percent > shown:
            shown = percent
            yield percent / 100
    yield 1
