"""A loaded model: the asynchronous Python API."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence, Sized
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from llmserve import _core
from llmserve.errors import ContextExceededError, TemplateError
from llmserve.loading import Loading
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.stream import Stream
from llmserve.types import ChatMessage, Completion, ModelInfo, Stats
from llmserve.wakeups import Mailbox

__all__ = ["Engine", "apply_chat_template", "check_length", "sampling_params"]

# Token ids that are converted at a time; between two pieces the event loop serves others.
_PIECE = 16_384


class Engine:
    """A loaded model that generates for many requests at once.

    Made by `Engine.load`. Works on asyncio and trio, from any number of event loops and threads; in a forked
    child every use raises `EngineDeadError`. Use `async with`, or `close()`, to free its memory at a known
    time.
    """

    __slots__ = ("__weakref__", "_core", "_info")

    def __init__(self, core: _core.Engine) -> None:
        self._core = core
        self._info = ModelInfo(**core.info())

    @classmethod
    async def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
    ) -> Engine:
        """Load a GGUF model; of a split one, its first part.

        `on_progress` gets floats from 0 to 1 that never fall, at most one for each percent. Cancelling the
        task cancels the load, unless another caller loads the same file with the same options. Raises
        `LoadError`.
        """
        async with cls.loading(path, config) as loading:
            async for progress in loading:
                if on_progress is not None:
                    on_progress(progress)
            return await loading.engine()

    @classmethod
    def loading(cls, path: str | os.PathLike[str], config: ModelConfig | None = None) -> Loading:
        """Begin to load a model and return at once.

        `async for progress in loading`, then `await loading.engine()`. Needs a running event loop.
        """
        return Loading(path, config or ModelConfig())

    async def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        **overrides: Any,
    ) -> Completion:
        """Generate a whole text for a prompt (a text or token ids).

        `add_special` adds what the vocabulary puts around a text (BOS); `parse_special` reads the text of
        control tokens as control tokens, which is for trusted text only. `overrides` are fields of
        `SamplingParams`. Cancelling the task aborts the request within a step. Raises `RequestError` if the
        request is refused, and `GenerationError`, `EngineClosedError` or `EngineDeadError` if it fails.
        """
        async with self.stream(
            prompt, params, add_special=add_special, parse_special=parse_special, at_end=True, **overrides
        ) as stream:
            return await stream.result()

    def stream(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        at_end: bool = False,
        **overrides: Any,
    ) -> Stream:
        """Submit a request and return at once; the arguments are those of `generate`.

        With `at_end` the output comes once it is complete, which costs the event loop less. Needs a running
        event loop. Raises `InvalidParameterError`, `EngineClosedError` and `EngineDeadError`; other refusals
        raise from the stream.
        """
        arguments = (prompt, add_special, parse_special)
        params = sampling_params(params, overrides)

        def submit(listener: _core.Listener) -> _core.Request:
            check_length(self._core, self._info, prompt)
            return self._core.submit(arguments, params, at_end, listener)

        return Stream(submit)

    async def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The token ids of a text; the options are those of `generate`. Raises `TokenizeError`."""
        mailbox = Mailbox()
        job = self._core.tokenize(text, add_special, parse_special, mailbox.listener)
        take = functools.partial(job.take, _PIECE)
        tokens = await mailbox.next(take)
        while piece := take():
            tokens += piece
            await anyio.lowlevel.checkpoint()
        return tokens

    async def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids; with `render_special` that of control tokens too.

        Bytes that are no UTF-8 become U+FFFD. Raises `InvalidParameterError` for an unknown id.
        """
        mailbox = Mailbox()
        buffer = _core.TokenBuffer()
        for start in range(0, len(tokens), _PIECE):
            buffer.extend(tokens[start : start + _PIECE])
            if len(tokens) > _PIECE:
                await anyio.lowlevel.checkpoint()
        job = self._core.detokenize(buffer, render_special, mailbox.listener)
        return (await mailbox.next(job.take)).decode(errors="replace")

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model file's metadata as text; arrays are left out."""
        return self._info.metadata

    @property
    def chat_template(self) -> str | None:
        """The model's default chat template (Jinja)."""
        return self._info.chat_template

    def apply_chat_template(
        self, messages: Sequence[ChatMessage], add_generation_prompt: bool = True, **kwargs: Any
    ) -> str:
        """The prompt that the model's chat template makes of messages.

        `kwargs` are further variables for the template. Control tokens are part of the result, so it is
        tokenized with `parse_special`. Raises `TemplateError`.
        """
        return apply_chat_template(self._info, messages, add_generation_prompt, kwargs)

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

    async def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning.

        Where two loads of one file ran at the same time, both gave one engine: it goes with the second close.
        """
        self._core.shutdown()
        # The engine ends within a step; its memory is not to be left behind by a cancelled task.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._core.join)

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


_DEFAULT_PARAMS = SamplingParams()


def sampling_params(params: SamplingParams | None, overrides: Mapping[str, Any]) -> SamplingParams:
    """Parameters with some fields replaced. Raises `TypeError` for a name that is no field."""
    params = params or _DEFAULT_PARAMS
    return params.replace(**overrides) if overrides else params


def check_length(core: _core.Engine, info: ModelInfo, prompt: object) -> None:
    """Refuse token ids that cannot fit before they are converted: there may be millions.

    Raises `ContextExceededError`, and what `check_alive` raises.
    """
    limit = info.context_length
    if not isinstance(prompt, str | bytes) and isinstance(prompt, Sized) and len(prompt) >= limit:
        core.check_alive()
        raise ContextExceededError(
            f"prompt: {len(prompt)} tokens leave no room for output in the context length of {limit} tokens",
            prompt_tokens=len(prompt),
            context_length=limit,
        )


def apply_chat_template(
    info: ModelInfo,
    messages: Sequence[ChatMessage],
    add_generation_prompt: bool,
    variables: Mapping[str, Any],
) -> str:
    """Render messages with a model's chat template. Raises `TemplateError`."""
    if info.chat_template is None:
        raise TemplateError("the model has no chat template")
    # Imported late: jinja2 takes longer to import than all of this package.
    from llmserve import templates

    tokens = {"bos_token": info.bos_text, "eos_token": info.eos_text}
    return templates.render(info.chat_template, messages, add_generation_prompt, **{**tokens, **variables})
