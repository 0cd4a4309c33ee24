"""What the handles of all loaded models have in common, whatever the models are for."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from llmserve import _core
from llmserve._binding.loads import Wanted
from llmserve._binding.operations import operation
from llmserve._binding.waiting import Waiting
from llmserve.model_config import ModelConfig
from llmserve.types import ModelInfo, Stats

__all__ = ["PIECE", "ModelHandle", "Special"]

CoreT = TypeVar("CoreT", _core.Engine, _core.Embedder)
Special: TypeAlias = Literal["plain", "control", "marked"]
"""What becomes of the text of control tokens."""

PIECE = 16_384
"""Token ids that are converted at a time; between two pieces the event loop serves others."""


class ModelHandle(Waiting, Generic[CoreT]):
    """A loaded model."""

    __slots__ = ("__weakref__", "_core", "_info")
    _core: CoreT
    _wanted: ClassVar[Wanted]

    def __new__(cls, core: object = None, *_: object, **__: object) -> Self:
        """Refuses what `load` is for."""
        if not isinstance(core, _core.Engine | _core.Embedder):
            name = cls.__name__
            raise TypeError(f"{name} is made by {name}.load(path), not by {name}(path)")
        return super().__new__(cls)

    def __init__(self, core: CoreT, config: ModelConfig) -> None:
        """The handle of a native model, which was loaded with the options."""
        self._core = core
        self._info = ModelInfo(**core.info())

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model file's metadata as text; arrays are left out."""
        return self._info.metadata

    def stats(self) -> Stats:
        """Counters and gauges, without stopping the engine."""
        return Stats(**self._core.stats())

    def check_alive(self) -> None:
        """Raise `EngineDeadError` or `EngineClosedError` if the engine cannot be used any more."""
        self._core.check_alive()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.is_shut_down()

    @operation
    async def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids; with `render_special`, that of control tokens too.

        Bytes that are not UTF-8 become U+FFFD. Raises `InvalidParameterError` for an unknown id.
        """
        return (await self._bytes_of(tokens, render_special)).decode(errors="replace")

    @operation
    async def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """`detokenize` without decoding: the bytes of some tokens need not be whole characters."""
        return await self._bytes_of(tokens, render_special)

    @operation
    async def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning.

        Where two loads of one file ran at the same time, both gave one model: it goes with the second close.
        """
        self._let_go()
        self._core.shutdown()
        # The engine ends within a step; a cancelled task must not leave its memory behind.
        await self._in_thread(self._core.join, shield=True)

    def _let_go(self) -> None:
        """Give up what the handle itself holds of the engine."""

    async def _tokenize(self, text: str, add_special: bool, special: Special) -> list[int]:
        mailbox = self._mailbox()
        job = self._core.tokenize(text, add_special, special, mailbox.listener)
        take = functools.partial(job.take, PIECE)
        tokens = await mailbox.next(take)
        while piece := take():
            tokens += piece
            await self._checkpoint()
        return tokens

    async def _bytes_of(self, tokens: Sequence[int], render_special: bool) -> bytes:
        mailbox = self._mailbox()
        buffer = _core.TokenBuffer()
        for start in range(0, len(tokens), PIECE):
            buffer.extend(tokens[start : start + PIECE])
            if len(tokens) > PIECE:
                await self._checkpoint()
        job = self._core.detokenize(buffer, render_special, mailbox.listener)
        return await mailbox.next(job.take)

    def __repr__(self) -> str:
        closed = ", closed" if self.is_closed else ""
        return (
            f"<{type(self).__name__} {self._info.description}, "
            f"context_length={self._info.context_length}{closed}>"
        )
