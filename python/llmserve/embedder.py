"""A loaded embedding model: the asynchronous Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType

import anyio.lowlevel

from llmserve import _core
from llmserve._binding import native_calls
from llmserve._binding.model_handle import ModelHandle
from llmserve._binding.wakeups import Mailbox
from llmserve.embeddings import Embeddings, Inputs, fill
from llmserve.loading import Loading
from llmserve.model_config import ModelConfig

__all__ = ["Embedder"]


class Embedder(ModelHandle[_core.Embedder]):
    """A loaded model that turns texts into vectors, many inputs of many requests at once.

    Made by `Embedder.load`. Works on asyncio and trio, from any number of event loops and threads; in a
    forked child every use raises `EngineDeadError`. Use `async with`, or `close()`, to free its memory at a
    known time.
    """

    __slots__ = ()

    @classmethod
    async def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
    ) -> Embedder:
        """Load a GGUF embedding model: an encoder (BERT and its like), or one whose file names a pooling.

        `on_progress` and cancelling are as with `Engine.load`. Of the options, `context_length` limits the
        inputs, `max_sequences` and `ubatch_size` what is computed together. Raises `LoadError`, and
        `WrongModelKindError` for a model that generates text.
        """
        async with cls.loading(path, config) as loading:
            async for progress in loading:
                if on_progress is not None:
                    on_progress(progress)
            return await loading.embedder()

    @classmethod
    def loading(cls, path: str | os.PathLike[str], config: ModelConfig | None = None) -> Loading:
        """Begin to load a model and return at once.

        `async for progress in loading`, then `await loading.embedder()`. Needs a running event loop.
        """
        return Loading(path, config or ModelConfig(), "embedding")

    async def embed(
        self,
        inputs: Inputs,
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        add_special: bool = True,
        parse_special: bool = True,
    ) -> Embeddings:
        """The vectors of a text, or of several inputs: texts, or token ids, which are used as they are.

        `dimensions` keeps only this many leading values of each vector, which suits models trained for that.
        `normalize` then scales the vectors to length 1. `add_special` adds the vocabulary's special tokens
        around a text; `parse_special` reads the text of control tokens as control tokens.

        Cancelling the task drops inputs that are not computed yet. Raises `InputTooLongError` for an input
        that exceeds the context length: nothing is truncated. Raises `RequestError` for other refusals, and
        `GenerationError`, `EngineClosedError` or `EngineDeadError` if the request fails.
        """
        mailbox = Mailbox()
        buffer = _core.InputBuffer()
        self._core.check_alive()
        pieces = fill(
            buffer,
            inputs,
            self._info.context_length,
            add_special=add_special,
            parse_special=parse_special,
        )
        for _ in pieces:
            await anyio.lowlevel.checkpoint()
        job = self._core.embed(buffer, dimensions, normalize, mailbox.listener)
        try:
            data, size, num_tokens = await mailbox.next(job.take)
        finally:
            job.cancel()
        return Embeddings(data=data, dimensions=size, num_tokens=tuple(num_tokens))

    async def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The token ids of a text; the options are those of `embed`. Raises `TokenizeError`."""
        return await native_calls.tokenize(
            self._core, text, add_special, "control" if parse_special else "plain"
        )

    async def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids; with `render_special` that of control tokens too.

        Bytes that are no UTF-8 become U+FFFD. Raises `InvalidParameterError` for an unknown id.
        """
        return (await self.detokenize_bytes(tokens, render_special=render_special)).decode(errors="replace")

    async def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """`detokenize` without decoding: the bytes of some tokens need not be whole characters."""
        return await native_calls.detokenize(self._core, tokens, render_special)

    async def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning.

        Where two loads of one file ran at the same time, both gave one model: it goes with the second close.
        """
        await native_calls.close(self._core)

    async def __aenter__(self) -> Embedder:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
