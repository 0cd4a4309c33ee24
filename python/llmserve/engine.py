"""A loaded model: the asynchronous Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import anyio.to_thread

from llmserve import _core
from llmserve._binding import native_calls
from llmserve._binding.loaded import (
    LoadedModel,
    Prompt,
    check_length,
    prompt_arguments,
    sampling_params,
    text_arguments,
)
from llmserve._binding.schemas import JsonSchema, parsed
from llmserve._binding.wakeups import Mailbox
from llmserve.chat import ChatPrompt, NextTurn
from llmserve.drafting import Drafting, DraftingOptions, DraftMethod
from llmserve.loading import Loading
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.session import Session
from llmserve.stream import Stream
from llmserve.types import ChatMessage, Completion

__all__ = ["Engine"]


class Engine(LoadedModel):
    """A loaded model that generates for many requests at once.

    Made by `Engine.load`. Works on asyncio and trio, from any number of event loops and threads; in a forked
    child every use raises `EngineDeadError`. Use `async with`, or `close()`, to free its memory at a known
    time.
    """

    __slots__ = ()

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
        `LoadError`, and `WrongModelKindError` for an embedding model: that is for `Embedder`.
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
        return Loading(path, config or ModelConfig(), "generation")

    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: Session | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        **overrides: Any,
    ) -> Completion:
        """Generate a complete text for a prompt: a text, token ids, or a `ChatPrompt`.

        `add_special` adds the vocabulary's special tokens around a text; `parse_special` reads the text of
        control tokens as control tokens, which is for trusted text only. `overrides` are fields of
        `SamplingParams`.

        With a `session`, the request waits for its turn in it. `append` is the relation of the prompt to the
        session. True: the prompt follows the session's tokens (`add_special` applies only if there are none);
        False: the prompt replaces them; a `NextTurn` follows instead of the prompt, unless the session is
        empty or not templated. Afterwards the session is prompt and output, and is `templated` or not.

        `drafting` is how the next tokens are guessed, which does not change the text: a `Drafting` from
        `open_drafting`, False for none, or `None` for the default (`enable_mtp`, `enable_prompt_lookup`).

        Cancelling the task aborts the request within a step. Raises `RequestError` if the
        request is refused, and `GenerationError`, `EngineClosedError` or `EngineDeadError` if it fails.
        """
        async with self.stream(
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
            return await stream.result()

    async def generate_json(
        self,
        prompt: Prompt,
        json_schema: JsonSchema = True,
        params: SamplingParams | None = None,
        **arguments: Any,
    ) -> Any:
        """Generate a JSON document that conforms to a schema, and parse it.

        For a Pydantic model class, returns an instance of it. `True` allows any JSON value. Further arguments
        and exceptions are those of `generate`. Raises `pydantic.ValidationError` for values that the class's
        own validators reject.
        """
        completion = await self.generate(prompt, params, json_schema=json_schema, **arguments)
        return parsed(json_schema, completion.text)

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: Session | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        at_end: bool = False,
        **overrides: Any,
    ) -> Stream:
        """Submit a request and return at once; the arguments are those of `generate`.

        With `at_end` the output comes once it is complete, which costs the event loop less. Needs a running
        event loop. Raises `InvalidParameterError`, `EngineClosedError` and `EngineDeadError`; other refusals
        raise from the stream.
        """
        used = None if session is None else (session.core, append, templated)
        drafts = self._drafting.argument(drafting)
        arguments = prompt_arguments(prompt, add_special, parse_special), used, drafts
        params = sampling_params(params, overrides)

        def submit(listener: _core.Listener) -> _core.Request:
            check_length(self._core, self._info, arguments[0][0])
            return self._core.submit(arguments, params, at_end, listener)

        return Stream(submit)

    def session(self, copy: Session | None = None) -> Session:
        """A new session: empty, or with the tokens that `copy` has after its last call that has ended.

        `copy` may be of another engine of the same weights. Raises `InvalidParameterError` if its tokens are
        not of this vocabulary, `EngineClosedError` and `EngineDeadError`.
        """
        core = self._core
        return Session(core.session() if copy is None else core.copy_session(copy.core))

    async def open_drafting(self, method: DraftMethod, draft_len: int = 3, adaptive: bool = True) -> Drafting:
        """Create a `Drafting` for the `drafting` argument of requests: `mtp` or `prompt_lookup`.

        `mtp` drafts with the model's own head, whose draft context is created if necessary and kept by
        the `Drafting`. `draft_len` is the maximum number of tokens in one draft, 1 to 8; with `adaptive`,
        drafts are shortened or skipped when they do not pay off. Raises `InvalidParameterError`,
        `NoDraftHeadError` if the model has no head, `GenerationError` if the draft context cannot be created,
        `EngineClosedError` and `EngineDeadError`.
        """
        options = DraftingOptions(method, draft_len, adaptive)
        if method == "prompt_lookup":
            self._core.check_alive()
            return Drafting(options, None)
        mailbox = Mailbox()
        job = self._core.open_head(mailbox.listener)
        try:
            return Drafting(options, await mailbox.next(job.take))
        finally:
            job.cancel()

    async def enable_mtp(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Make later requests draft with the model's own head, unless they choose otherwise.

        Arguments and exceptions are those of `open_drafting`; if it fails, or the task is cancelled, nothing
        changes. Replaces the previous choice; if calls overlap, the one that began last wins.
        """
        call = self._drafting.begin()
        self._drafting.set(call, await self.open_drafting("mtp", draft_len, adaptive))

    async def enable_prompt_lookup(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Like `enable_mtp`, but drafts what followed the last tokens at an earlier place in the text.

        That works with every model, and pays off if the output repeats its prompt.
        """
        call = self._drafting.begin()
        self._drafting.set(call, await self.open_drafting("prompt_lookup", draft_len, adaptive))

    async def tokenize(
        self, text: str | ChatPrompt, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """The token ids of a text; the options are those of `generate`. Raises `TokenizeError`."""
        return await native_calls.tokenize(self._core, *text_arguments(text, add_special, parse_special))

    async def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of token ids; with `render_special` that of control tokens too.

        Bytes that are no UTF-8 become U+FFFD. Raises `InvalidParameterError` for an unknown id.
        """
        return (await self.detokenize_bytes(tokens, render_special=render_special)).decode(errors="replace")

    async def token_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each token, which may be part of a UTF-8 character; for control tokens, their text.

        The result is cached. Raises `InvalidParameterError` for an unknown id.
        """
        pieces = self._pieces
        wanted = list(tokens)
        for token in wanted:
            if token not in pieces:
                pieces[token] = await self.detokenize_bytes([token], render_special=True)
        return [pieces[token] for token in wanted]

    async def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """`detokenize` without decoding: the bytes of some tokens need not be whole characters."""
        return await native_calls.detokenize(self._core, tokens, render_special)

    async def chat_prompt(
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> ChatPrompt:
        """Messages rendered with the model's chat template, as a prompt for `generate` and `stream`.

        Text of messages and tools never becomes control tokens. `add_generation_prompt` begins the
        assistant's turn; without it, `continue_final_message=True` leaves the last message open. `template`
        names a variant of the model's chat template (by default `tool_use`, if there are tools and the model
        has it), or is Jinja itself. `kwargs` are further variables for the template. A model without a
        template gets the plain layout of docs/python.md. Content may be null or a list of text parts;
        arguments of tool calls may be JSON text. Renders on another thread. Raises `TemplateError` and
        `InvalidParameterError`.
        """
        # On that thread, too, jinja2 is imported at the first use.
        return await anyio.to_thread.run_sync(
            lambda: self._chat.prompt(
                messages,
                add_generation_prompt=add_generation_prompt,
                tools=tools,
                template=template,
                **kwargs,
            )
        )

    async def next_turn(
        self,
        user_text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> NextTurn:
        """How a templated conversation continues with the user's next message; options as in `chat_prompt`.

        Raises `TemplateError` if the template rejects a conversation of user, assistant, user.
        """
        return await anyio.to_thread.run_sync(
            lambda: self._chat.next_turn(user_text, tools=tools, template=template, **kwargs)
        )

    async def close(self) -> None:
        """End every request with `EngineClosedError` and free the memory before returning.

        Where two loads of one file ran at the same time, both gave one engine: it goes with the second close.
        """
        self.disable_drafting()
        await native_calls.close(self._core)

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
