"""Ending tasks."""

from __future__ import annotations

import asyncio
from typing import Any


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end, whatever that is."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as forgotten
