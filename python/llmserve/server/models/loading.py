"""A load that several callers share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.server.model_kind import ModelKind
from llmserve.server.models.kinds import kind_of
from llmserve.server.refusals import LoadAbandonedError, ModelKindError

logger = logging.getLogger(__name__)


class SharedLoad:
    """One load and the tickets of those who wait for it.

    ``load`` gets a function to which it reports its progress, 0 to 1. ``on_end`` is called once, before any
    ticket learns of the end, with what was loaded or the failure; ``on_leave`` for each ticket that is given
    up after that.
    """

    def __init__(
        self,
        load: Callable[[Callable[[float], object]], Awaitable[Engine | Embedder]],
        on_end: Callable[[Engine | Embedder | None, BaseException | None], None],
        on_leave: Callable[[], object],
    ) -> None:
        self.tickets: set[LoadTicket] = set()
        self.progress = 0.0
        self.is_cancelling = False
        self.is_over = False
        self.failure: BaseException | None = None
        self.kind: ModelKind | None = None
        """The kind of what was loaded."""
        self._on_end = on_end
        self._on_leave = on_leave
        self._cancel_reason: BaseException = LoadAbandonedError()
        self._task = asyncio.create_task(self._run(load))
        self._task.add_done_callback(self._end)

    def join(self, pin: str, kind: ModelKind | None) -> LoadTicket:
        """A ticket for one more caller, who wants a model of a kind, or any model."""
        ticket = LoadTicket(self, pin, kind)
        self.tickets.add(ticket)
        return ticket

    def leave(self, ticket: LoadTicket) -> None:
        """Removes a caller; the last one to leave cancels the load."""
        self.tickets.discard(ticket)
        if self.is_over:
            self._on_leave()
        elif not self.tickets:
            self.is_cancelling = True
            self._task.cancel()

    async def cancel(self, reason: BaseException | None = None) -> None:
        """Cancels the load for all callers; those who wait get ``reason``.

        The load's thread frees the memory by itself, as soon as llama.cpp lets go.
        """
        if not self.is_over:
            self._cancel_reason = reason or self._cancel_reason
            self.is_cancelling = True
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(
        self, load: Callable[[Callable[[float], object]], Awaitable[Engine | Embedder]]
    ) -> Engine | Embedder:
        return await load(self._on_progress)

    def _on_progress(self, progress: float) -> None:
        self.progress = progress
        self._wake_tickets()

    def _end(self, task: asyncio.Task[Engine | Embedder]) -> None:
        handle: Engine | Embedder | None = None
        if task.cancelled():
            self.failure = self._cancel_reason
        elif (failure := task.exception()) is not None:
            self.failure = failure
        else:
            handle = task.result()
            self.kind = kind_of(handle)
        self.is_over = True
        self._on_end(handle, self.failure)
        self._wake_tickets()

    def _wake_tickets(self) -> None:
        for ticket in self.tickets:
            ticket.wake()


class LoadTicket:
    """One caller's share in a load. Used as a context manager: leaving gives the share up."""

    def __init__(self, load: SharedLoad, pin: str, kind: ModelKind | None = None) -> None:
        self.pin = pin
        self._kind = kind
        self._load = load
        self._news = asyncio.Event()
        self._reason: BaseException | None = None

    def __enter__(self) -> LoadTicket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._load.leave(self)

    @property
    def is_served(self) -> bool:
        """Whether the loaded model is of the kind that the caller wants."""
        return self._kind is None or self._kind == self._load.kind

    def wake(self) -> None:
        """Tells the caller that there is news."""
        self._news.set()

    def give_up(self, reason: BaseException) -> None:
        """Ends the caller's waiting with ``reason``; the load goes on for others."""
        self._reason = reason
        self.wake()

    async def progress(self) -> AsyncGenerator[float, None]:
        """The progress from now on, 0 to 1, never falling; nothing if the load is over. Ends when it is.

        Raises:
            LoadError: The load failed.
            ModelKindError: The model is for something else.
            Refusal: The load was cancelled, or this caller gave it up.
        """
        while not self._load.is_over and self._reason is None:
            yield self._load.progress
            await self._news.wait()
            self._news.clear()
        if self._reason is not None:
            raise self._reason
        if self._load.failure is not None:
            raise self._load.failure
        if self._kind is not None and not self.is_served:
            raise ModelKindError(self._kind, self._load.kind)

    async def wait(self) -> None:
        """Waits until the model is ready.

        Raises:
            LoadError: The load failed.
            ModelKindError: The model is for something else.
            Refusal: The load was cancelled.
        """
        async for _ in self.progress():
            pass
