"""The engine without an event loop: every call blocks its thread, and no other."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from llmserve import _core
from llmserve._binding import blocking
from llmserve._binding.blocking import Mailbox as _Mailbox
from llmserve._binding.blocking import wait_for_load
from llmserve._binding.loaded import (
    LoadedModel,
    Prompt,
    check_length,
    prompt_arguments,
    sampling_params,
    text_arguments,
)
from llmserve._binding.schemas import JsonSchema, parsed
from llmserve._binding.transcript import PIECE, Transcript
from llmserve.chat import ChatPrompt, NextTurn
from llmserve.drafting import Drafting, DraftingOptions, DraftMethod
from llmserve.errors import ContextExceededError, WrongModelKindError
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.types import ChatMessage, Completion, Delta

__all__ = ["SyncEngine", "SyncSession", "SyncStream", "load"]


class SyncEngine(LoadedModel):
    """`llmserve.Engine` for programs without an event loop; its methods mean the same and raise the same.

    Made by `SyncEngine.load`. Usable from several threads at once.
    """

    __slots__ = ()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        config: ModelConfig | None = None,
        *,
        on_progress: Callable[[float], object] | None = None,
    ) -> SyncEngine:
        """Load a model. Raises `LoadError`."""
        core = wait_for_load(path, config or ModelConfig(), "generation", on_progress)
        if isinstance(core, _core.Embedder):
            raise WrongModelKindError("the model gives embeddings and generates no text")
        return cls(core)

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: SyncSession | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        **overrides: Any,
    ) -> Completion:
        """Generate a whole text for a prompt."""
        with self.stream(
            prompt,
            params,
            add_special=add_special,
            parse_special=parse_special,
            session=session,
            append=append,
            templated=templated,
            drafting=drafting,
            at_end=True,
            **overrides,
        ) as stream:
            return stream.result()

    def generate_json(
        self,
        prompt: Prompt,
        json_schema: JsonSchema = True,
        params: SamplingParams | None = None,
        **arguments: Any,
    ) -> Any:
        """Generate a JSON document that a schema accepts, and parse it."""
        completion = self.generate(prompt, params, json_schema=json_schema, **arguments)
        return parsed(json_schema, completion.text)

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: SyncSession | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        at_end: bool = False,
        **overrides: Any,
    ) -> SyncStream:
        """Submit a request and return at once."""
        used = None if session is None else (session.core, append, templated)
        drafts = self._drafting.argument(drafting)
        arguments = prompt_arguments(prompt, add_special, parse_special), used, drafts
        params = sampling_params(params, overrides)

        def submit(listener: _core.Listener) -> _core.Request:
            check_length(self._core, self._info, arguments[0][0])
            return self._core.submit(arguments, params, at_end, listener)

        return SyncStream(submit)

    def session(self) -> SyncSession:
        """A new, empty session."""
        return SyncSession(self._core.session())

    def open_drafting(self, method: DraftMethod, draft_len: int = 3, adaptive: bool = True) -> Drafting:
        """A way to draft, for the `drafting` argument of requests: `mtp` or `prompt_lookup`."""
        options = DraftingOptions(method, draft_len, adaptive)
        if method == "prompt_lookup":
            self._core.check_alive()
            return Drafting(options, None)
        mailbox = _Mailbox()
        job = self._core.open_head(mailbox.listener)
        try:
            return Drafting(options, mailbox.next(job.take))
        finally:
            job.cancel()

    def enable_mtp(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Let later requests draft with the model's own head, unless they say otherwise."""
        call = self._drafting.begin()
        self._drafting.set(call, self.open_drafting("mtp", draft_len, adaptive))

    def enable_prompt_lookup(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Let later requests draft from what prompt and output repeat, unless they say otherwise."""
        call = self._drafting.begin()
        self._drafting.set(call, self.open_drafting("prompt_lookup", draft_len, adaptive))

    def tokenize(
        self, text: str | ChatPrompt, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """The token ids of a text."""
        return blocking.tokenize(self._core, *text_arguments(text, add_special, parse_special))

    def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids."""
        return blocking.detokenize(self._core, tokens, render_special)

    def chat_prompt(
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> ChatPrompt:
        """Messages rendered with the model's chat template, as a prompt."""
        return self._chat.prompt(
            messages, add_generation_prompt=add_generation_prompt, tools=tools, template=template, **kwargs
        )

    def next_turn(
        self,
        user_text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> NextTurn:
        """How a templated conversation goes on with the user's next message."""
        return self._chat.next_turn(user_text, tools=tools, template=template, **kwargs)

    def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning."""
        self.disable_drafting()
        self._core.shutdown()
        self._core.join()

    def __enter__(self) -> SyncEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class SyncStream:
    """The output of one request: an iterator of `Delta`. For one thread at a time.

    Leaving `with`, `close()`, or dropping it aborts the request.
    """

    __slots__ = ("_error_was_raised", "_mailbox", "_request", "_transcript")

    def __init__(self, submit: Callable[[_core.Listener], _core.Request]) -> None:
        self._mailbox = _Mailbox()
        self._transcript = Transcript()
        self._error_was_raised = False
        self._request: _core.Request | None = None
        try:
            self._request = submit(self._mailbox.listener)
        except ContextExceededError as error:
            self._transcript.error = error

    def __iter__(self) -> SyncStream:
        return self

    def __next__(self) -> Delta:
        transcript = self._transcript
        while self._request is not None:
            if (delta := transcript.next_delta()) is not None:
                return delta
            if transcript.is_over:
                self._request = None
                break
            transcript.add(self._mailbox.next(functools.partial(self._request.take, PIECE)))
        if transcript.error is not None and not self._error_was_raised:
            self._error_was_raised = True
            raise transcript.error
        raise StopIteration

    def result(self) -> Completion:
        """The whole result, once it is there. Raises `RuntimeError` if the stream was closed before."""
        transcript = self._transcript
        while transcript.completion is None:
            if transcript.error is not None:
                raise transcript.error
            if self._request is None:
                raise RuntimeError("the stream is closed")
            transcript.add(self._mailbox.next(functools.partial(self._request.take, PIECE)))
        return transcript.completion

    @property
    def completion(self) -> Completion | None:
        """The whole result, after the last delta was received."""
        return self._transcript.completion if self._transcript.is_read else None

    def abort(self) -> None:
        """End the request within one step; the iteration then ends by itself."""
        if self._request is not None:
            self._request.abort()

    def close(self) -> None:
        """Abort the request and end the iteration."""
        self.abort()
        self._request = None

    def __enter__(self) -> SyncStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class SyncSession:
    """`llmserve.Session` without an event loop; its methods mean the same and raise the same."""

    __slots__ = ("__weakref__", "core")

    def __init__(self, core: _core.Session) -> None:
        self.core = core

    @property
    def num_tokens(self) -> int:
        """Number of tokens after the last call that has ended."""
        return self.core.num_tokens()

    @property
    def is_templated(self) -> bool:
        """Whether the tokens are of a chat template."""
        return self.core.is_templated()

    def tokens(self) -> list[int]:
        """The token ids after the last call that has ended."""
        return self.core.tokens().take(sys.maxsize) or []

    def reset(self) -> None:
        """Empty the session."""
        mailbox = _Mailbox()
        _done(self.core.reset(mailbox.listener), mailbox)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file. Raises `SessionError`."""
        mailbox = _Mailbox()
        _done(self.core.save(path, mailbox.listener), mailbox)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Make the session what a file holds. Raises `SessionError`."""
        mailbox = _Mailbox()
        _done(self.core.load(path, mailbox.listener), mailbox)


def _done(job: _core.SessionJob, mailbox: _Mailbox) -> None:
    """Wait for a call of a session, which Ctrl-C gives up."""
    try:
        mailbox.next(job.take)
    finally:
        job.cancel()


load = SyncEngine.load
