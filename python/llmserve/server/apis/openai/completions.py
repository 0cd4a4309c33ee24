"""`/v1/completions`: raw prompts, one or several, with any number of choices each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai import answers, logprobs
from llmserve.server.apis.openai.answers import Cost, Envelope
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.ends import check_end
from llmserve.server.apis.openai.errors import DIALECT
from llmserve.server.apis.openai.grammar import with_grammar
from llmserve.server.apis.openai.merging import merged
from llmserve.server.apis.openai.sampling import ignored_fields, json_schema_of, sampling_params, schema_text
from llmserve.server.apis.openai.schema import MAX_CHOICES
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.refusals import FieldError, ServerStoppingError
from llmserve.server.services import Services
from llmserve.server.web.acceptance import accepted_within
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.session_names import header_session
from llmserve.server.web.sse import DONE
from llmserve.stream import Stream
from llmserve.types import Completion, Delta


class CompletionsApi:
    """The route over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def serve(self, exchange: Exchange) -> None:
        """`POST /v1/completions`."""
        parsed = await exchange.read(OpenAiCompletionRequest)
        request = parsed.value
        params = await with_grammar(request, _params(request))
        ignored = [*parsed.unknown, *ignored_fields(request, params)]
        session = header_session(exchange.request.scope)
        async with self.submitted(request, params, session) as (used, choices):
            envelope = Envelope("text_completion", "cmpl", used.entry.id, used.engine.info.fingerprint)
            headers = answers.headers(params.seed, ignored)
            run = _Run(self._services.lifecycle, envelope, request, choices)
            if request.stream:
                await exchange.send_events(run.frames(), answers.render_error, headers=headers)
            else:
                await exchange.send_json(await run.answer(), headers=headers)

    @asynccontextmanager
    async def submitted(
        self,
        request: OpenAiCompletionRequest,
        params: SamplingParams,
        session: str | None,
        tokens_field: str = "max_tokens",
    ) -> AsyncGenerator[tuple[UsedModel, list[Choice]], None]:
        """The choices of a request, which run within the context. `tokens_field` is `max_tokens` on the wire.

        Raises:
            FieldError: There are too many, or they may have no token and must be a document.
            LlmserveError: The request is refused.
        """
        if request.max_tokens == 0 and params.json_schema is not None:
            # As the engine refuses every budget that does not hold the shortest document.
            raise FieldError(tokens_field, "must be at least 1 with a JSON schema, got 0")
        num_choices = len(request.prompt) * request.n
        if num_choices > MAX_CHOICES:
            raise FieldError(
                "prompt", f"and n must ask for at most {MAX_CHOICES} texts together, got {num_choices}"
            )
        if session is not None and num_choices > 1:
            raise FieldError("n", "and prompt must ask for one text when a session is named")
        async with AsyncExitStack() as stack:
            used = await stack.enter_async_context(self._services.on_demand.use(request.model))
            choices = [
                Choice(used.engine, request, prompt_index, number, params)
                for prompt_index in range(len(request.prompt))
                for number in range(request.n)
            ]
            for choice in choices:
                await choice.prepare()
            if request.max_tokens != 0:
                await self._submit(stack, used, choices, session)
            yield used, choices

    async def _submit(
        self, stack: AsyncExitStack, used: UsedModel, choices: Sequence[Choice], session: str | None
    ) -> None:
        lifecycle = self._services.lifecycle
        if session is None:
            for choice in choices:
                choice.stream = used.engine.stream(choice.prompt, choice.params, at_end=choice.at_end)
        else:
            (choice,) = choices
            call = stack.enter_context(
                self._services.sessions.call(used.model, session, DIALECT, goes_on=True)
            )
            async with call.submitting() as opened:
                choice.stream = used.engine.stream(
                    choice.prompt, choice.params, session=opened, append=True, at_end=choice.at_end
                )
                call.attach(choice.stream)
        streams = [choice.running for choice in choices]
        for stream in streams:
            await stack.enter_async_context(stream)
            stack.enter_context(lifecycle.running(stream.abort))
        for choice, stream in zip(choices, streams, strict=True):
            # Refusals are raised here, while the answer can still have their status.
            await accepted_within(stream, None if choice.at_end else self._services.settings.sse_ping_s)
        if lifecycle.is_stopping:
            raise ServerStoppingError


def _params(request: OpenAiCompletionRequest) -> SamplingParams:
    if request.suffix:
        raise FieldError("suffix", "is not supported: put a model's own infill tokens into the prompt")
    if request.best_of is not None and request.best_of != request.n:
        raise FieldError("best_of", f"must equal n ({request.n}) if it is given, got {request.best_of}")
    schema = json_schema_of(request.response_format)
    if schema is None and request.json_schema is not None:
        schema = schema_text(request.json_schema, "json_schema")
    return sampling_params(
        request, max_tokens=request.max_tokens or 1, logprobs=request.logprobs, json_schema=schema
    )


@dataclass(slots=True)
class Choice:
    """One choice for one prompt."""

    engine: Engine
    request: OpenAiCompletionRequest
    prompt_index: int
    number: int
    base: SamplingParams
    stream: Stream | None = None
    echoed: str = ""
    echoed_logprobs: dict[str, Any] | None = None
    shown: logprobs.ShownTokens = field(default_factory=logprobs.ShownTokens)
    legacy: logprobs.LegacyLogprobs | None = None
    cost: Cost | None = None

    @property
    def prompt(self) -> str | list[int]:
        """Of the request's, this choice's."""
        return self.request.prompt[self.prompt_index]

    @property
    def params(self) -> SamplingParams:
        """With what keys the choice's draws."""
        return self.base.replace(choice_index=self.number) if self.number else self.base

    @property
    def at_end(self) -> bool:
        """Whether the output is wanted as a whole."""
        return not self.request.stream

    @property
    def running(self) -> Stream:
        """The stream. Raises `RuntimeError` where none was submitted."""
        if self.stream is None:
            raise RuntimeError("the choice was not submitted")
        return self.stream

    async def prepare(self) -> None:
        """Finds what is echoed."""
        if self.request.echo:
            await self._find_echo()
        if self.request.logprobs is not None:
            self.legacy = logprobs.LegacyLogprobs(self.request.logprobs, len(self.echoed))

    async def _find_echo(self) -> None:
        prompt = self.prompt
        self.echoed = (
            prompt if isinstance(prompt, str) else await self.engine.detokenize(prompt, render_special=True)
        )
        if self.request.logprobs is not None:
            ids = await self.engine.tokenize(prompt) if isinstance(prompt, str) else prompt
            pieces = await self.engine.token_bytes(ids)
            self.echoed_logprobs = logprobs.echoed_logprobs(pieces, self.request.logprobs)

    async def logprobs_of(self, delta: Delta, stop: str | None, *, is_last: bool) -> dict[str, Any] | None:
        """The lists of the tokens that are shown with a delta."""
        if self.legacy is None:
            return None
        tokens = self.shown.push(delta.text, delta.tokens)
        if is_last:
            tokens += self.shown.flush(stop)
        return self.legacy.render(tokens, await logprobs.load_texts(self.engine, tokens))

    async def without_output(self) -> Cost:
        """The cost where nothing is generated."""
        prompt = self.prompt
        ids = await self.engine.tokenize(prompt) if isinstance(prompt, str) else prompt
        return Cost(prompt_tokens=len(ids), cached_tokens=0, completion_tokens=0)


_Part = Delta | Completion


class _Run:
    """All choices of a request as one answer."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        envelope: Envelope,
        request: OpenAiCompletionRequest,
        choices: Sequence[Choice],
    ) -> None:
        self._lifecycle = lifecycle
        self._envelope = envelope
        self._request = request
        self._choices = choices

    async def answer(self) -> dict[str, Any]:
        """The whole answer."""
        shown = []
        for index, choice in enumerate(self._choices):
            if choice.stream is None:
                choice.cost = await choice.without_output()
                shown.append(_choice(index, choice.echoed, choice.echoed_logprobs, "length"))
                continue
            completion = await choice.stream.result()
            check_end(self._lifecycle, completion.finish_reason)
            choice.cost = answers.completion_cost(completion)
            delta = Delta(text=completion.text, tokens=completion.tokens)
            lists = await choice.logprobs_of(delta, completion.stop, is_last=True)
            if lists is not None and choice.echoed_logprobs is not None:
                lists = logprobs.joined(choice.echoed_logprobs, lists)
            shown.append(_choice(index, choice.echoed + completion.text, lists, completion.finish_reason))
        whole = self._envelope.fields(self._envelope.kind, shown)
        return {**whole, "usage": self._usage(), "timings": self._timings(0)}

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The answer as events."""
        for index, choice in enumerate(self._choices):
            if choice.stream is None:
                choice.cost = await choice.without_output()
                yield self._frame(_choice(index, choice.echoed, choice.echoed_logprobs, "length"))
            elif self._request.echo:
                yield self._frame(_choice(index, choice.echoed, choice.echoed_logprobs, None))
        submitted = [choice for choice in self._choices if choice.stream is not None]
        if submitted:
            async with aclosing(merged([_parts(choice.running) for choice in submitted])) as parts:
                async for index, part in parts:
                    if frame := await self._part(index, part):
                        yield frame
        if self._request.stream_options.include_usage:
            yield answers.frame({**self._envelope.fields(self._envelope.kind, []), "usage": self._usage()})
        yield DONE

    async def _part(self, index: int, part: _Part) -> bytes:
        choice = self._choices[index]
        if isinstance(part, Delta):
            lists = await choice.logprobs_of(part, None, is_last=False)
            has_tokens = lists is not None and lists["tokens"]
            if not part.text and not has_tokens:
                return b""
            return self._frame(_choice(index, part.text, lists, None))
        check_end(self._lifecycle, part.finish_reason)
        choice.cost = answers.completion_cost(part)
        rest = await choice.logprobs_of(Delta(text="", tokens=()), part.stop, is_last=True)
        return self._frame(_choice(index, "", rest, part.finish_reason), timings=self._timings(index))

    def _frame(self, choice: dict[str, Any], **extra: Any) -> bytes:
        usage = {"usage": None} if self._request.stream_options.include_usage else {}
        return answers.frame({**self._envelope.fields(self._envelope.kind, [choice]), **usage, **extra})

    def _usage(self) -> dict[str, Any]:
        costs: dict[int, list[Cost]] = {}
        for choice in self._choices:
            if choice.cost is not None:
                costs.setdefault(choice.prompt_index, []).append(choice.cost)
        return answers.usage(costs)

    def _timings(self, index: int) -> dict[str, Any] | None:
        cost = self._choices[index].cost
        return None if cost is None else answers.timings(cost)


async def _parts(stream: Stream) -> AsyncGenerator[_Part, None]:
    async for delta in stream:
        yield delta
    yield await stream.result()


def _choice(index: int, text: str, lists: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": lists, "finish_reason": reason}
