"""Calls that `Engine` and `Embedder` have in common, awaited."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread

from llmserve import _core
from llmserve._binding.wakeups import Mailbox

__all__ = ["close", "detokenize", "tokenize"]

_Core: TypeAlias = _core.Engine | _core.Embedder
_Special: TypeAlias = Literal["plain", "control", "marked"]

# Token ids that are converted at a time; between two pieces the event loop serves others.
_PIECE = 16_384


async def tokenize(core: _Core, text: str, add_special: bool, special: _Special) -> list[int]:
    """The token ids of a text."""
    mailbox = Mailbox()
    job = core.tokenize(text, add_special, special, mailbox.listener)
    take = functools.partial(job.take, _PIECE)
    tokens = await mailbox.next(take)
    while piece := take():
        tokens += piece
        await anyio.lowlevel.checkpoint()
    return tokens


async def detokenize(core: _Core, tokens: Sequence[int], render_special: bool) -> bytes:
    """The bytes of token ids."""
    mailbox = Mailbox()
    buffer = _core.TokenBuffer()
    for start in range(0, len(tokens), _PIECE):
        buffer.extend(tokens[start : start + _PIECE])
        if len(tokens) > _PIECE:
            await anyio.lowlevel.checkpoint()
    job = core.detokenize(buffer, render_special, mailbox.listener)
    return await mailbox.next(job.take)


async def close(core: _Core) -> None:
    """Ends every request and frees the memory."""
    core.shutdown()
    # It ends within a step; its memory is not to be left behind by a cancelled task.
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(core.join)
