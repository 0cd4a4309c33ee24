"""Sessions: conversations whose tokens are kept from call to call."""

from __future__ import annotations

import os
from collections.abc import Callable

from llmserve import _core
from llmserve._binding.awaited import Awaited
from llmserve._binding.blocking import Blocking
from llmserve._binding.model_handle import PIECE
from llmserve._binding.operations import operation
from llmserve._binding.waiting import Waiting
from llmserve.errors import EngineDeadError

__all__ = ["AnySession", "Session", "SyncSession"]


class AnySession(Waiting):
    """What `Session` and `SyncSession` have in common, which is all; an engine takes either."""

    __slots__ = ("__weakref__", "core")

    def __init__(self, core: _core.Session) -> None:
        self.core = core

    @property
    def num_tokens(self) -> int:
        """Number of tokens after the last finished call."""
        return self.core.num_tokens()

    @property
    def is_templated(self) -> bool:
        """Whether the tokens come from a chat template, as the last request declared."""
        return self.core.is_templated()

    @operation
    async def tokens(self) -> list[int]:
        """The token ids after the last finished call."""
        job = self.core.tokens()
        tokens: list[int] = []
        while piece := job.take(PIECE):
            tokens += piece
            await self._checkpoint()
        return tokens

    @operation
    async def reset(self) -> None:
        """Empty the session. Raises `EngineClosedError` or `EngineDeadError` if the engine is gone."""
        await self._done(self.core.reset)

    @operation
    async def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file: its tokens, and the KV state that is available.

        An existing file is replaced only if it is a session file; a crash leaves the old or the new one. The
        folder must exist. Cancelling the task cancels a save that has not begun. Raises `SessionError`.
        """
        await self._done(lambda listener: self.core.save(path, listener))

    @operation
    async def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the session with that of a file.

        The file must come from the same weights and adapters; a KV state of another layout (KV types, flash
        attention, number of sequences) is computed again. Raises `SessionError`, and then the session is
        unchanged.
        """
        await self._done(lambda listener: self.core.load(path, listener))

    async def _done(self, begin: Callable[[_core.Listener], _core.SessionJob]) -> None:
        """Wait for a call; a cancelled task, or Ctrl-C, gives it up."""
        mailbox = self._mailbox()
        job = begin(mailbox.listener)
        try:
            await mailbox.next(job.take)
        finally:
            job.cancel()

    def __repr__(self) -> str:
        try:
            state = f"{self.num_tokens} tokens{', templated' if self.is_templated else ''}"
        except EngineDeadError:
            state = "of a dead engine"
        return f"<{type(self).__name__} {state}>"


class Session(AnySession, Awaited):
    """A conversation with one engine: the tokens of its prompts and answers. Made by `Engine.session`.

    Given to `generate` and `stream`, it is what their prompt goes on from, and afterwards prompt and output.
    A request that failed, or ended without a token, leaves it as it was. Its calls (requests, `save`, `load`,
    `reset`) run one after the other in the order in which they were made, from whatever task, event loop or
    thread; the KV cells are a cache, and only `usage.cached_tokens` shows whether they were there.

    Every method raises `EngineDeadError` in a forked child.
    """

    __slots__ = ()


class SyncSession(AnySession, Blocking):
    """`Session` without an event loop; its methods mean and raise the same."""

    __slots__ = ()
