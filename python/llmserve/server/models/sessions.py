"""Named sessions: which exist, for how long, and the calls that use them.

A session belongs to (model, name) and is shared by all dialects. It expires when it has been idle for too
long, and if there are too many, the one that has been idle longest is dropped. All methods belong to the
event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import anyio

from llmserve.server.callbacks import call_all
from llmserve.server.models.model import Model
from llmserve.server.refusals import SessionExpiredError, SessionsFullError, UnknownSessionError
from llmserve.session import Session

logger = logging.getLogger(__name__)

MAX_EXPIRED = 10_000
"""How many names of expired sessions are remembered."""

Key = tuple[Model, str]


class NamedSession:
    """An engine's session under a name.

    ``order`` is held while a call of it is being prepared and submitted: the engine queues what it has been
    given, and this keeps the order in which calls came until they are there. ``copying`` brings what the
    session holds from another engine.
    """

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.order = asyncio.Lock()
        self.copying: asyncio.Task[None] | None = None
        self.has_failed = False
        """Whether what the session held could not be brought here."""
        self.num_uses = 0
        self.idle_since = now
        self.idle = asyncio.Event()
        self.idle.set()

    def begin_use(self) -> None:
        """Begins a use, which keeps the session from expiring."""
        self.num_uses += 1
        self.idle.clear()

    def end_use(self, now: float) -> None:
        """Ends one use; after the last one it is idle."""
        self.num_uses -= 1
        self.idle_since = now
        if self.num_uses == 0:
            self.idle.set()


class Abortable(Protocol):
    """What a call runs: a stream, or a turn of several streams."""

    def abort(self) -> None:
        """Ends the call's output within one step."""


class SessionCall:
    """One call of a session. It can be cancelled from the beginning."""

    def __init__(self, model: Model, dialect: str, named: NamedSession, *, goes_on: bool) -> None:
        self.model = model
        self.dialect = dialect
        self.named = named
        self._goes_on = goes_on
        self.is_cancelled = False
        self._running: Abortable | None = None
        self._waiting = anyio.CancelScope()
        self._stand_in: Session | None = None

    @property
    def session(self) -> Session:
        """The engine's session, or the empty one in its place, see `submitting`."""
        return self._stand_in or self.named.session

    @property
    def is_alone(self) -> bool:
        """Whether no other call of the session is running or waiting."""
        return self.named.num_uses == 1

    @asynccontextmanager
    async def submitting(self) -> AsyncGenerator[Session, None]:
        """The session, for what the call gives to the engine. Calls come here in their order.

        A call that is cancelled before its turn gets an empty session instead: what it submits is aborted as
        soon as it is attached, and then ends as a cancelled call does, without waiting for those before it.
        """
        if not await self._wait_for_turn():
            self._stand_in = _empty_session(self.model)
            yield self._stand_in
            return
        try:
            yield self.named.session
        finally:
            self.named.order.release()

    @asynccontextmanager
    async def in_order(self) -> AsyncGenerator[Session, None]:
        """Like `submitting`, for what no cancellation ends, such as saving the session."""
        await self._take_turn()
        try:
            yield self.named.session
        finally:
            self.named.order.release()

    def attach(self, running: Abortable) -> None:
        """Tells what a cancellation aborts: all that the call runs, not only its first part."""
        self._running = running
        if self.is_cancelled:
            running.abort()

    def cancel(self) -> None:
        """Ends the call within one step."""
        self.is_cancelled = True
        self._waiting.cancel()
        if self._running is not None:
            self._running.abort()

    async def _wait_for_turn(self) -> bool:
        """Whether it is the call's turn; false if the call was cancelled before."""
        if not self.is_cancelled:
            with self._waiting:
                await self._take_turn()
                return True
        return False

    async def _take_turn(self) -> None:
        await self.named.order.acquire()
        try:
            if self.named.copying is not None:
                await asyncio.wait({self.named.copying})
            if self.named.has_failed and self._goes_on:
                raise SessionExpiredError
        except (asyncio.CancelledError, SessionExpiredError):
            self.named.order.release()
            raise


class SessionTable:
    """All named sessions. ``ttl_s`` is in seconds of ``clock``."""

    def __init__(self, ttl_s: float, max_sessions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._max_sessions = max_sessions
        self._clock = clock
        # The longest idle session comes first; one in use may be anywhere.
        self._sessions: OrderedDict[Key, NamedSession] = OrderedDict()
        self._expired: OrderedDict[Key, None] = OrderedDict()
        # Sessions that were dropped with their model, by its path.
        self._lost: OrderedDict[tuple[Path, str], None] = OrderedDict()
        # Names of sessions that were lost with another server.
        self._lost_elsewhere: OrderedDict[str, None] = OrderedDict()
        self._calls: dict[str, set[SessionCall]] = {}
        self.find_kept: Callable[[Model, str], bool] = lambda model, name: False
        """Asked for sessions that are not here: puts one into the table, if another server has left it."""

    def __len__(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    @contextmanager
    def call(
        self, model: Model, name: str, dialect: str, *, goes_on: bool, must_exist: bool = False
    ) -> Iterator[SessionCall]:
        """A call of a session, which is created if necessary and stays for as long as the context.

        Raises:
            UnknownSessionError: It ``must_exist``, and does not.
            SessionExpiredError: ``goes_on``, and the session has expired. Raised once.
            SessionsFullError: There would be too many sessions, and none is idle.
        """
        named = self._get(model, name, goes_on=goes_on, must_exist=must_exist)
        call = SessionCall(model, dialect, named, goes_on=goes_on)
        calls = self._calls.setdefault(name, set())
        calls.add(call)
        named.begin_use()
        try:
            yield call
        finally:
            calls.discard(call)
            if not calls and self._calls.get(name) is calls:
                del self._calls[name]
            self.end_use(model, name, named)

    def end_use(self, model: Model, name: str, named: NamedSession) -> None:
        """Ends a use; the session is now the last one to expire."""
        named.end_use(self._clock())
        if self._sessions.get((model, name)) is named:
            self._sessions.move_to_end((model, name))

    def cancel(self, name: str, dialect: str, model: Model | None) -> None:
        """Ends the calls of a dialect under a name, and everybody's in the session of ``model``."""
        calls = self._calls.get(name, ())
        cancels = [call.cancel for call in calls if call.dialect == dialect or call.model is model]
        call_all(logger, f"a call of the session {name!r} could not be cancelled", cancels)

    def drop(self, model: Model, name: str) -> None:
        """Forgets a session; calls that use it go on."""
        self._sessions.pop((model, name), None)
        self._expired.pop((model, name), None)
        self._lost.pop((model.path, name), None)

    def forget_model(self, model: Model) -> None:
        """Forgets all sessions of an unloaded model. Clients that continue one after a reload are told."""
        for name in [name for owner, name in self._sessions if owner is model]:
            self._lost[model.path, name] = None
        while len(self._lost) > MAX_EXPIRED:
            self._lost.popitem(last=False)
        for table in (self._sessions, self._expired):
            for key in [key for key in table if key[0] is model]:
                del table[key]

    def of_model(self, model: Model) -> dict[str, NamedSession]:
        """The sessions of a model by their names."""
        self._expire()
        return {name: named for (owner, name), named in self._sessions.items() if owner is model}

    def add(self, model: Model, name: str, session: Session) -> NamedSession:
        """Puts a session under a name, replacing any other."""
        named = NamedSession(session, self._clock())
        self._sessions[model, name] = named
        self._sessions.move_to_end((model, name))
        self._expired.pop((model, name), None)
        self._lost.pop((model.path, name), None)
        return named

    def latest_names(self, limit: int) -> list[str]:
        """The names of the sessions that were used last."""
        return [name for _, name in islice(reversed(self._sessions), limit)]

    def has_name(self, name: str) -> bool:
        """Whether there is a session of this name, of whatever model."""
        return any(other == name for _, other in self._sessions)

    def lose_elsewhere(self, name: str) -> None:
        """Tells that another server had a session. A client that continues it here is told, once."""
        self._lost_elsewhere[name] = None
        while len(self._lost_elsewhere) > MAX_EXPIRED:
            self._lost_elsewhere.popitem(last=False)

    def expire(self, model: Model, name: str) -> None:
        """Forgets a session; a client that continues it is told once."""
        self._sessions.pop((model, name), None)
        self._expired[model, name] = None
        self._expired.move_to_end((model, name))
        while len(self._expired) > MAX_EXPIRED:
            self._expired.popitem(last=False)

    def expired_names(self, model: Model) -> list[str]:
        """The names of a model's sessions that have expired."""
        return [name for owner, name in self._expired if owner is model]

    def _get(self, model: Model, name: str, *, goes_on: bool, must_exist: bool) -> NamedSession:
        self._expire()
        key = (model, name)
        if (named := self._sessions.get(key)) is not None:
            return named
        if self.find_kept(model, name):
            self._lost_elsewhere.pop(name, None)
            return self._sessions[key]
        if self._forget_loss(model, name) and goes_on:
            raise SessionExpiredError
        if must_exist:
            raise UnknownSessionError(name)
        self._make_room()
        return self.add(model, name, _empty_session(model))

    def _forget_loss(self, model: Model, name: str) -> bool:
        """Whether a session of this name is gone, which is no longer remembered."""
        places: tuple[tuple[OrderedDict[Any, None], Any], ...] = (
            (self._expired, (model, name)),
            (self._lost, (model.path, name)),
            (self._lost_elsewhere, name),
        )
        known = [(table, key) for table, key in places if key in table]
        for table, key in known:
            del table[key]
        return bool(known)

    def _expire(self) -> None:
        for key in self._too_long_idle():
            self.expire(*key)

    def _too_long_idle(self) -> list[Key]:
        latest = self._clock() - self._ttl_s
        keys = []
        for key, named in self._sessions.items():
            if named.num_uses > 0:
                continue
            if named.idle_since > latest:
                break
            keys.append(key)
        return keys

    def _make_room(self) -> None:
        while len(self._sessions) >= self._max_sessions:
            idle = next((key for key, named in self._sessions.items() if named.num_uses == 0), None)
            if idle is None:
                raise SessionsFullError(self._max_sessions)
            self.expire(*idle)


def _empty_session(model: Model) -> Session:
    if model.engine is None:
        raise RuntimeError("the model is not loaded")
    return model.engine.session()
