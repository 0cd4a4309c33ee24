"""Several sources of output as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from llmserve.server.generation import merged


async def count(limit: int) -> AsyncGenerator[int, None]:
    for number in range(limit):
        await asyncio.sleep(0)
        yield number


async def fail() -> AsyncGenerator[int, None]:
    yield 0
    raise ValueError("broken")


@pytest.mark.parametrize("limits", [[3], [3, 0, 5], [1] * 20])
def test_merged_sources_lose_nothing(limits: list[int]) -> None:
    async def scenario() -> list[tuple[int, int | None]]:
        return [item async for item in merged([count(limit) for limit in limits])]

    got = asyncio.run(scenario())
    assert len(got) == sum(limits) + len(limits)
    for index, limit in enumerate(limits):
        assert [number for source, number in got if source == index] == [*range(limit), None]


def test_a_source_that_fails_ends_all() -> None:
    async def scenario() -> None:
        async for _ in merged([count(10**9), fail()]):
            pass

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(scenario())
