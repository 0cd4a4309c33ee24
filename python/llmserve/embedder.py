"""A loaded embedding model."""

from __future__ import annotations

from llmserve import _core
from llmserve._binding.model_handle import ModelHandle
from llmserve._binding.operations import operation
from llmserve.embeddings import Embeddings, Inputs, fill
from llmserve.loading import AwaitedModel, BlockingModel

__all__ = ["Embedder", "SyncEmbedder"]


class AnyEmbedder(ModelHandle[_core.Embedder]):
    """What `Embedder` and `SyncEmbedder` have in common, which is all."""

    __slots__ = ()
    _wanted = "embedding"

    @operation
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
        mailbox = self._mailbox()
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
            await self._checkpoint()
        job = self._core.embed(buffer, dimensions, normalize, mailbox.listener)
        try:
            data, size, num_tokens = await mailbox.next(job.take)
        finally:
            job.cancel()
        return Embeddings(data=data, dimensions=size, num_tokens=tuple(num_tokens))

    @operation
    async def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The token ids of a text; the options are those of `embed`. Raises `TokenizeError`."""
        return await self._tokenize(text, add_special, "control" if parse_special else "plain")


class Embedder(AnyEmbedder, AwaitedModel[_core.Embedder]):
    """A loaded model that turns texts into vectors, many inputs of many requests at once.

    Made by `Embedder.load` of an encoder (BERT and its like), or a model whose file names a pooling. Of the
    options of a load, `context_length` limits the inputs, `max_sequences` and `ubatch_size` what is computed
    together.

    Works on asyncio and trio, from any number of event loops and threads; in a forked child every use raises
    `EngineDeadError`. Use `async with`, or `close()`, to free its memory at a known time.
    """

    __slots__ = ()


class SyncEmbedder(AnyEmbedder, BlockingModel[_core.Embedder]):
    """`Embedder` for programs without an event loop; its methods mean the same and raise the same.

    Made by `SyncEmbedder.load`. Usable from several threads at once; each call blocks its own.
    """

    __slots__ = ()
