"""Sessions: conversations whose tokens are kept from call to call."""

from __future__ import annotations

import os

import anyio.lowlevel

from llmserve import _core
from llmserve._binding.wakeups import Mailbox

__all__ = ["Session"]

# Token ids that are converted at a time; between two pieces the event loop serves others.
_PIECE = 16_384


class Session:
    """A conversation with one engine: the tokens of its prompts and answers. Made by `Engine.session`.

    Given to `generate` and `stream`, it is what their prompt goes on from, and afterwards prompt and output.
    A request that failed, or ended without a token, leaves it as it was. Its calls (requests, `save`, `load`,
    `reset`) run one after the other in the order in which they were made, from whatever task, event loop or
    thread; the KV cells are a cache, and only `usage.cached_tokens` shows whether they were there.

    Every method raises `EngineDeadError` in a forked child.
    """

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

    async def tokens(self) -> list[int]:
        """The token ids after the last finished call."""
        job = self.core.tokens()
        tokens: list[int] = []
        while piece := job.take(_PIECE):
            tokens += piece
            await anyio.lowlevel.checkpoint()
        return tokens

    async def reset(self) -> None:
        """Empty the session. Raises `EngineClosedError` or `EngineDeadError` if the engine is gone."""
        mailbox = Mailbox()
        await _done(self.core.reset(mailbox.listener), mailbox)

    async def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file: its tokens, and the KV state that is available.

        An existing file is replaced only if it is a session file; a crash leaves the old or the new one. The
        folder must exist. Cancelling the task cancels a save that has not begun. Raises `SessionError`.
        """
        mailbox = Mailbox()
        await _done(self.core.save(path, mailbox.listener), mailbox)

    async def load(self, path: str | os.PathLike[str]) -> None:
        """Replace the session with that of a file.

        The file must come from the same weights and adapters; a KV state of another layout (KV types, flash
        attention, number of sequences) is computed again. Raises `SessionError`, and then the session is
        unchanged.
        """
        mailbox = Mailbox()
        await _done(self.core.load(path, mailbox.listener), mailbox)


async def _done(job: _core.SessionJob, mailbox: Mailbox) -> None:
    """Wait for a call, which a cancelled task gives up."""
    try:
        await mailbox.next(job.take)
    finally:
        job.cancel()
