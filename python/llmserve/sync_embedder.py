"""The embedder without an event loop: every call blocks its thread, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal

from llmserve import _core
from llmserve._binding import blocking
from llmserve._binding.blocking import Mailbox, wait_for_load
from llmserve._binding.model_handle import ModelHandle
from llmserve.embeddings import Embeddings, Inputs, fill
from llmserve.errors import WrongModelKindError
from llmserve.model_config import ModelConfig

__all__ = ["SyncEmbedder"]


class SyncEmbedder(ModelHandle[_core.Embedder]):
    """`llmserve.Embedder` for programs without an event loop; its methods mean the same and raise the same.

    Made by `SyncEmbedder.load`. Usable from several threads at once.
    """

    __slots__ = ()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
    ) -> SyncEmbedder:
        """Load an embedding model. Raises `LoadError`."""
        core = wait_for_load(path, config or ModelConfig(), "embedding", on_progress)
        if isinstance(core, _core.Engine):
            raise WrongModelKindError("the model generates text and gives no embeddings")
        return cls(core)

    def embed(
        self,
        inputs: Inputs,
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        add_special: bool = True,
        parse_special: bool = True,
    ) -> Embeddings:
        """The vectors of a text, or of several inputs."""
        mailbox = Mailbox()
        buffer = _core.InputBuffer()
        self._core.check_alive()
        limit = self._info.context_length
        for _ in fill(buffer, inputs, limit, add_special=add_special, parse_special=parse_special):
            pass
        job = self._core.embed(buffer, dimensions, normalize, mailbox.listener)
        try:
            data, size, num_tokens = mailbox.next(job.take)
        finally:
            job.cancel()
        return Embeddings(data=data, dimensions=size, num_tokens=tuple(num_tokens))

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The token ids of a text."""
        special: Literal["control", "plain"] = "control" if parse_special else "plain"
        return blocking.tokenize(self._core, text, add_special, special)

    def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids."""
        return blocking.detokenize(self._core, tokens, render_special)

    def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning."""
        self._core.shutdown()
        self._core.join()

    def __enter__(self) -> SyncEmbedder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
