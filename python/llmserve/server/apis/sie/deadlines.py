"""The time limits of one request. They count from the end of loading."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from llmserve.server.apis.sie.schema import GenerateOptions
from llmserve.server.refusals import GenerationTimeoutError

T = TypeVar("T")


class Deadlines:
    """Waits for outputs within the limits; they run from when this was made."""

    def __init__(self, options: GenerateOptions) -> None:
        self._options = options
        self._begun = anyio.current_time()
        self._has_output = False

    @property
    def needs_each_output(self) -> bool:
        """Whether a limit is about single outputs, so that these must be seen as they come."""
        options = self._options
        return options.first_chunk_timeout_s is not None or options.inter_chunk_timeout_s is not None

    async def wait(self, get: Callable[[], Awaitable[T]]) -> T:
        """What ``get`` gives.

        Raises:
            GenerationTimeoutError: A limit has passed before.
        """
        nearest = min(self._limits(), default=None)
        if nearest is None:
            return await get()
        due, field, seconds = nearest
        with anyio.CancelScope(deadline=due):
            return await get()
        raise GenerationTimeoutError(field, seconds)

    async def next_output(self, get: Callable[[], Awaitable[T]]) -> T:
        """Like :meth:`wait`, for an output. The limit between two begins when the next is waited for: a
        client that reads slowly does not use it up.
        """
        output = await self.wait(get)
        self._has_output = True
        return output

    def _limits(self) -> list[tuple[float, str, float]]:
        """When each limit passes, its field and its length."""
        options = self._options
        limits = []
        if (overall := options.overall_timeout_s) is not None:
            limits.append((self._begun + overall, "options.overall_timeout_s", overall))
        if self._has_output:
            if (between := options.inter_chunk_timeout_s) is not None:
                limits.append((anyio.current_time() + between, "options.inter_chunk_timeout_s", between))
        elif (first := options.first_chunk_timeout_s) is not None:
            limits.append((self._begun + first, "options.first_chunk_timeout_s", first))
        return limits
