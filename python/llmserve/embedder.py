"""A loaded embedding model."""

from __future__ import annotations

from collections.abc import Sequence

from llmserve import _core
from llmserve._binding.model_handle import ModelHandle
from llmserve._binding.operations import operation
from llmserve.embeddings import Embeddings, Inputs, fill
from llmserve.loading import AwaitedModel, BlockingModel
from llmserve.ranking import PairTemplate, Scores
from llmserve.tenant import Tenant

__all__ = ["Embedder", "SyncEmbedder"]


_PIECE = 1 << 16
"""Characters of pairs that are handed over at a time; between two pieces the event loop serves others."""


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
        tenant: Tenant | None = None,
    ) -> Embeddings:
        """The vectors of a text, or of several inputs: texts, or token ids, which are used as they are.

        `dimensions` keeps only this many leading values of each vector, which suits models trained for that.
        `normalize` then scales the vectors to length 1. `add_special` adds the vocabulary's special tokens
        around a text; `parse_special` reads the text of control tokens as control tokens.
        `tenant` is whose request it is: tenants take turns, input by input.

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
        job = self._core.embed((buffer, tenant), dimensions, normalize, mailbox.listener)
        try:
            data, size, num_tokens = await mailbox.next(job.take)
        finally:
            job.cancel()
        return Embeddings(data=data, dimensions=size, num_tokens=tuple(num_tokens))

    @operation
    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        raw_scores: bool = False,
        truncate: bool = False,
        tenant: Tenant | None = None,
    ) -> Scores:
        """How well each document answers a query, by a model that ranks (`info.pooling` is `rank`).

        Scores are from 0 to 1; with `raw_scores`, they are what the model's head gives. `truncate` cuts
        documents that are too long; `tenant` is that of `embed`. Raises `InputTooLongError` for a pair that
        exceeds the context length, `InvalidParameterError` if the model does not rank, and otherwise the
        errors of `embed`.
        """
        return await self._scores([(query, document) for document in documents], raw_scores, truncate, tenant)

    @operation
    async def score(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        raw_scores: bool = False,
        truncate: bool = False,
        tenant: Tenant | None = None,
    ) -> Scores:
        """`rerank` for pairs with queries of their own: `(query, document)`."""
        return await self._scores(pairs, raw_scores, truncate, tenant)

    async def _scores(
        self, pairs: Sequence[tuple[str, str]], raw_scores: bool, truncate: bool, tenant: Tenant | None
    ) -> Scores:
        mailbox = self._mailbox()
        buffer = _core.PairBuffer()
        self._core.check_alive()
        own = self._info.chat_templates.get("rerank")
        template = None if own is None else PairTemplate(own, self._info.control_tokens)
        num_copied = 0
        for query, document in pairs:
            if template is None:
                buffer.append(query, document)
            elif truncate:
                buffer.append_joined(await self._cut(template, query, document))
            else:
                buffer.append_joined(template.joined(query, document))
            num_copied += len(query) + len(document)
            if num_copied >= _PIECE:
                num_copied = 0
                await self._checkpoint()
        job = self._core.rank((buffer, tenant), truncate, raw_scores, mailbox.listener)
        try:
            data, _, num_tokens = await mailbox.next(job.take)
        finally:
            job.cancel()
        return Scores(values=tuple(memoryview(data).cast("f")), num_tokens=tuple(num_tokens))

    async def _cut(self, template: PairTemplate, query: str, document: str) -> str:
        """The text of a pair, with as much of the document as fits."""
        while True:
            text = template.joined(query, document)
            # No token has less than a byte.
            if not document or len(text.encode()) <= self._info.context_length:
                return text
            excess = len(await self._tokenize(text, False, "marked")) - self._info.context_length
            if excess <= 0:
                return text
            tokens = await self._tokenize(document, False, "plain")
            document = (await self._bytes_of(tokens[:-excess], False)).decode(errors="ignore")

    @operation
    async def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The token ids of a text; the options are those of `embed`. Raises `TokenizeError`."""
        return await self._tokenize(text, add_special, "control" if parse_special else "plain")


class Embedder(AnyEmbedder, AwaitedModel[_core.Embedder]):
    """A loaded model that turns texts into vectors, or ranks documents, many inputs of many requests at once.

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
