"""A loaded model that generates text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, Unpack

from llmserve import _core
from llmserve._binding.loaded import (
    LoadedModel,
    Prompt,
    check_length,
    prompt_arguments,
    sampling_params,
)
from llmserve._binding.operations import operation
from llmserve._binding.schemas import JsonSchema, parsed
from llmserve.chat import ChatPrompt, NextTurn
from llmserve.drafting import Drafting, DraftingOptions, DraftMethod
from llmserve.loading import AwaitedModel, BlockingModel
from llmserve.options import RequestOptions, SamplingOptions
from llmserve.sampling_params import SamplingParams
from llmserve.session import AnySession, Session, SyncSession
from llmserve.stream import AnyStream, Stream, SyncStream
from llmserve.tenant import Tenant
from llmserve.types import CachedTokens, ChatMessage, Completion

__all__ = ["Engine", "SyncEngine"]

StreamT = TypeVar("StreamT", bound=AnyStream)
SessionT = TypeVar("SessionT", bound=AnySession)


class AnyEngine(LoadedModel, Generic[StreamT, SessionT]):
    """What `Engine` and `SyncEngine` have in common."""

    __slots__ = ()
    _stream_type: type[StreamT]
    _session_type: type[SessionT]

    @operation
    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: AnySession | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        tenant: Tenant | None = None,
        **overrides: Unpack[SamplingOptions],
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

        `tenant` is whose request it is: waiting requests of several tenants are admitted in turns.

        Cancelling the task aborts the request within a step. Raises `RequestError` if the
        request is refused, and `GenerationError`, `EngineClosedError` or `EngineDeadError` if it fails.
        """
        stream = self.stream(
            prompt,
            params,
            add_special=add_special,
            parse_special=parse_special,
            session=session,
            append=append,
            templated=templated,
            drafting=drafting,
            tenant=tenant,
            at_end=True,
            **overrides,
        )
        try:
            return await AnyStream.result(stream)
        finally:
            stream._close()

    @operation
    async def generate_json(
        self,
        prompt: Prompt,
        json_schema: JsonSchema = True,
        params: SamplingParams | None = None,
        **arguments: Unpack[RequestOptions],
    ) -> Any:
        """Generate a JSON document that conforms to a schema, and parse it.

        For a Pydantic model class, returns an instance of it. `True` allows any JSON value. Further arguments
        and exceptions are those of `generate`. Raises `pydantic.ValidationError` for values that the class's
        own validators reject.
        """
        completion = await AnyEngine.generate(self, prompt, params, json_schema=json_schema, **arguments)
        return parsed(json_schema, completion.text)

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        session: AnySession | None = None,
        append: bool | NextTurn = True,
        templated: bool = False,
        drafting: Drafting | Literal[False] | None = None,
        tenant: Tenant | None = None,
        begun: bytes = b"",
        at_end: bool = False,
        **overrides: Unpack[SamplingOptions],
    ) -> StreamT:
        """Submit a request and return at once; the arguments are those of `generate`.

        `begun` has the prompt's last bytes that count as output: stop strings may begin in them, and the text
        of the first token begins with theirs. It is not for constrained output.

        With `at_end` the output comes once it is complete, which costs less. A `Stream` needs a running
        event loop. Raises `InvalidParameterError`, `EngineClosedError` and `EngineDeadError`; other refusals
        raise from the stream.
        """
        used = None if session is None else (session.core, append, templated)
        drafts = self._drafting.argument(drafting)
        arguments = prompt_arguments(prompt, add_special, parse_special), used, drafts, begun, tenant
        params = sampling_params(params, overrides)

        def submit(listener: _core.Listener) -> _core.Request:
            check_length(self._core, self._info, arguments[0][0])
            return self._core.submit(arguments, params, at_end, listener)

        limits = (self._info.context_length, params.max_total_tokens)
        context_length = min(limit for limit in limits if limit is not None)
        return self._stream_type(submit, max_tokens=params.max_tokens, context_length=context_length)

    @operation
    async def chat(
        self,
        messages: Sequence[ChatMessage],
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        variables: Mapping[str, Any] | None = None,
        **overrides: Unpack[SamplingOptions],
    ) -> Completion:
        """Generate the assistant's answer to messages: `chat_prompt` and `generate` in one.

        `variables` are those of the chat template, as keywords of `chat_prompt`; `overrides` are fields of
        `SamplingParams`. Exceptions are those of `chat_prompt` and `generate`.
        """
        prompt, params = await self._chat_request(messages, params, tools, template, variables, overrides)
        return await AnyEngine.generate(self, prompt, params)

    @operation
    async def chat_stream(
        self,
        messages: Sequence[ChatMessage],
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        variables: Mapping[str, Any] | None = None,
        **overrides: Unpack[SamplingOptions],
    ) -> StreamT:
        """The stream of the assistant's answer to messages; arguments are those of `chat`.

        `Engine`: `async with await engine.chat_stream(messages) as stream`.
        """
        prompt, params = await self._chat_request(messages, params, tools, template, variables, overrides)
        return self.stream(prompt, params)

    async def _chat_request(
        self,
        messages: Sequence[ChatMessage],
        params: SamplingParams | None,
        tools: Sequence[Mapping[str, Any]] | None,
        template: str | None,
        variables: Mapping[str, Any] | None,
        overrides: SamplingOptions,
    ) -> tuple[ChatPrompt, SamplingParams]:
        # Wrong parameters are refused before anything is rendered.
        params = sampling_params(params, overrides)
        prompt = await AnyEngine.chat_prompt(
            self, messages, tools=tools, template=template, **(variables or {})
        )
        return prompt, params.replace(stop=(*params.stop, *prompt.stop)) if prompt.stop else params

    def session(self, copy: AnySession | None = None) -> SessionT:
        """A new session: empty, or with the tokens that `copy` has after its last call that has ended.

        `copy` may be of another engine of the same weights. Raises `InvalidParameterError` if its tokens are
        not of this vocabulary, `EngineClosedError` and `EngineDeadError`.
        """
        core = self._core
        return self._session_type(core.session() if copy is None else core.copy_session(copy.core))

    @operation
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
        mailbox = self._mailbox()
        job = self._core.open_head(mailbox.listener)
        try:
            return Drafting(options, await mailbox.next(job.take))
        finally:
            job.cancel()

    @operation
    async def enable_mtp(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Make later requests draft with the model's own head, unless they choose otherwise.

        Arguments and exceptions are those of `open_drafting`; if it fails, or the task is cancelled, nothing
        changes. Replaces the previous choice; if calls overlap, the one that began last wins.
        """
        call = self._drafting.begin()
        self._drafting.set(call, await AnyEngine.open_drafting(self, "mtp", draft_len, adaptive))

    @operation
    async def enable_prompt_lookup(self, draft_len: int = 3, adaptive: bool = True) -> None:
        """Like `enable_mtp`, but drafts what followed the last tokens at an earlier place in the text.

        That works with every model, and pays off if the output repeats its prompt.
        """
        call = self._drafting.begin()
        self._drafting.set(call, await AnyEngine.open_drafting(self, "prompt_lookup", draft_len, adaptive))

    @operation
    async def cached_tokens(self) -> CachedTokens:
        """The token ids whose KV cells are there for requests to come; none where a cache cannot be cut back.

        Raises `EngineClosedError` and `EngineDeadError`.
        """
        mailbox = self._mailbox()
        job = self._core.cached_tokens(mailbox.listener)
        in_slots, parked = await mailbox.next(job.take)
        return CachedTokens(in_slots=_token_ids(in_slots), parked=_token_ids(parked))

    @operation
    async def tokenize(
        self, text: str | ChatPrompt, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """The token ids of a text; the options are those of `generate`. Raises `TokenizeError`."""
        return await self._tokenize(*prompt_arguments(text, add_special, parse_special))

    @operation
    async def token_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each token, which may be part of a UTF-8 character; for control tokens, their text.

        The result is cached. Raises `InvalidParameterError` for an unknown id.
        """
        pieces = self._pieces
        wanted = list(tokens)
        for token in wanted:
            if token not in pieces:
                pieces[token] = await self._bytes_of([token], True)
        return [pieces[token] for token in wanted]

    @operation
    async def chat_prompt(
        self,
        /,
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
        arguments of tool calls may be JSON text. `Engine` renders on another thread. Raises `TemplateError`
        and `InvalidParameterError`.
        """
        # On that thread, too, jinja2 is imported at the first use.
        return await self._in_thread(
            lambda: self._chat.prompt(
                messages,
                add_generation_prompt=add_generation_prompt,
                tools=tools,
                template=template,
                **kwargs,
            )
        )

    @operation
    async def next_turn(
        self,
        /,
        user_text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> NextTurn:
        """How a templated conversation continues with the user's next message; options as in `chat_prompt`.

        Raises `TemplateError` if the template rejects a conversation of user, assistant, user.
        """
        return await self._in_thread(
            lambda: self._chat.next_turn(user_text, tools=tools, template=template, **kwargs)
        )


def _token_ids(sequences: Iterable[bytes]) -> tuple[memoryview[int], ...]:
    return tuple(memoryview(tokens).cast("i") for tokens in sequences)


class Engine(AnyEngine[Stream, Session], AwaitedModel[_core.Engine]):
    """A loaded model that generates for many requests at once.

    Made by `Engine.load`. Works on asyncio and trio, from any number of event loops and threads; in a forked
    child every use raises `EngineDeadError`. Use `async with`, or `close()`, to free its memory at a known
    time.
    """

    __slots__ = ()
    _stream_type = Stream
    _session_type = Session


class SyncEngine(AnyEngine[SyncStream, SyncSession], BlockingModel[_core.Engine]):
    """`Engine` for programs without an event loop; its methods mean the same and raise the same.

    Made by `SyncEngine.load`. Usable from several threads at once; each call blocks its own.
    """

    __slots__ = ()
    _stream_type = SyncStream
    _session_type = SyncSession
