"""Models that are being loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack

from llmserve._binding.awaited import Awaited
from llmserve._binding.blocking import Blocking, run
from llmserve._binding.loads import BlockingLoad, Load
from llmserve._binding.model_handle import CoreT, ModelHandle
from llmserve.field_names import check_names
from llmserve.model_config import ModelConfig
from llmserve.options import ModelOptions

__all__ = ["AwaitedModel", "BlockingModel", "Loading"]

ModelT = TypeVar("ModelT", bound="AwaitedModel[Any]")


class Loading(Load[ModelT], Awaited, Coroutine[Any, Any, ModelT]):
    """A load that can be awaited, entered, or looked at while it goes on. Made by `Engine.load`.

    `await` gives the model; `async with` gives it too, and closes it at the end. `async for` gives the
    progress: floats from 0 to 1 that never fall, at most one for each percent; the model can be awaited
    afterwards. The load begins with the first of these, and belongs to that event loop. `aclose()`,
    cancelling the last task that awaits it, or dropping it cancels the load, unless another caller loads the
    same file with the same options for the same use.
    """

    _steps: Coroutine[Any, Any, ModelT] | None = None

    def __await__(self) -> Generator[Any, Any, ModelT]:
        return self._finish().__await__()

    # A coroutine, so that `asyncio.run`, tasks and `trio.run` take it.
    def send(self, value: Any) -> Any:
        """Continue the load, for the event loop."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the load, for the event loop."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """End the load, for the event loop."""
        self._coroutine().close()
        self._leave()

    def _coroutine(self) -> Coroutine[Any, Any, ModelT]:
        if self._steps is None:
            self._steps = self._finish()
        return self._steps

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> float:
        """The next progress, 0 to 1. Raises `LoadError` if the load failed."""
        with self._waiting():
            progress = await self._next_progress()
        if progress is None:
            raise StopAsyncIteration
        return progress

    async def aclose(self) -> None:
        """Cancel the load, if it is not over, and end the iteration. A model that was fetched stays open."""
        self._cancel()

    async def __aenter__(self) -> ModelT:
        return await self

    async def __aexit__(self, *_: object) -> None:
        if self._model is not None:
            await self._model.close()


class AwaitedModel(ModelHandle[CoreT], Awaited):
    """A model that is loaded and closed on an event loop."""

    __slots__ = ()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
        **options: Unpack[ModelOptions],
    ) -> Loading[Self]:
        """Load a GGUF model; of a split one, its first part.

        `await` gives the model; `async with` closes it at the end, too. `on_progress` gets floats from 0 to 1
        that never fall, at most one for each percent; so does `async for` over what this gives. `options` are
        fields of `ModelConfig`. Cancelling the task cancels the load, unless another caller loads the same
        file with the same options. Raises `LoadError`, and `WrongModelKindError` if the model is for
        something else: to generate, or to embed.
        """
        return Loading(path, _config(config, options), cls._wanted, cls, on_progress)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class BlockingModel(ModelHandle[CoreT], Blocking):
    """A model that is loaded and closed without an event loop."""

    __slots__ = ()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
        **options: Unpack[ModelOptions],
    ) -> Self:
        """Load a GGUF model; of a split one, its first part.

        `on_progress` gets floats from 0 to 1 that never fall, at most one for each percent. `options` are
        fields of `ModelConfig`. Raises `LoadError`, and `WrongModelKindError` if the model is for something
        else: to generate, or to embed.
        """
        load = BlockingLoad(path, _config(config, options), cls._wanted, cls, on_progress)
        return run(load._finish())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _config(config: ModelConfig | None, options: ModelOptions) -> ModelConfig:
    if config is not None and not isinstance(config, ModelConfig):
        raise TypeError(
            f"config must be a ModelConfig, got {type(config).__name__}; options are keyword arguments: "
            "load(path, context_length=4096)"
        )
    check_names("load option", options, ModelConfig)
    return replace(config or ModelConfig(), **options)
