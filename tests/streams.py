"""What tests of streams share."""

from __future__ import annotations

from llmserve import Delta, Engine, Stream

PROMPT = "The capital of France is"


async def read(stream: Stream) -> list[Delta]:
    return [delta async for delta in stream]


def is_idle(engine: Engine) -> bool:
    stats = engine.stats()
    return stats.num_preparing == stats.num_waiting == stats.num_running == 0
