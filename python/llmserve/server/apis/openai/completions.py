"""`/v1/completions`: raw prompts, one or several, with any number of choices each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai import answers, logprobs
from llmserve.server.apis.openai.answers import Envelope
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.contents import COMPLETION_ERRORS, GENERATED, answered
from llmserve.server.apis.openai.grammar import with_grammar
from llmserve.server.apis.openai.sampling import ignored_fields, sampling_params
from llmserve.server.apis.openai.schema import MAX_CHOICES
from llmserve.server.conversation.json_formats import json_schema_of, schema_text
from llmserve.server.error_shapes.openai import DIALECT, OPENAI
from llmserve.server.generation import Call, Run, merged, raw_text
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.refusals import CallCancelledError, FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.sse import DONE
from llmserve.stream import Stream
from llmserve.types import Completion, Delta, Timings, Usage

_EXAMPLE = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1767225600,
    "model": "SmolLM2-135M-Instruct.Q4_1",
    "choices": [{"index": 0, "text": " Paris.", "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}


class CompletionsApi:
    """The route over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/v1/completions",
        method="POST",
        dialect=OPENAI,
        operation_id="createCompletion",
        summary="Complete prompts",
        description="Generates text from raw prompts. A client that disconnects cancels its request.",
        body=OpenAiCompletionRequest,
        responses=answered(GENERATED, _EXAMPLE, has_stream=True),
        errors=COMPLETION_ERRORS,
        parameters=[SESSION],
    )
    async def serve(self, exchange: Exchange) -> None:
        """`POST /v1/completions`."""
        parsed = await exchange.read(OpenAiCompletionRequest)
        request = parsed.value
        params = await with_grammar(request, _params(request))
        ignored = [*parsed.unknown, *ignored_fields(request, params)]
        session = SESSION.of(exchange.request.scope)
        async with self.submitted(request, params, session) as (used, choices):
            envelope = Envelope("text_completion", "cmpl", used.entry.id, used.engine.info.fingerprint)
            headers = answer_headers(ignored, seed=params.seed)
            answer = _Answer(envelope, request, choices)
            if request.stream:
                await exchange.send_events(answer.frames(), answers.render_error, headers=headers)
            else:
                await exchange.send_json(await answer.whole(), headers=headers)

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
            FieldError: The choices are too many, or may have no token and must be a document.
            LlmserveError: The request is refused.
        """
        if request.max_tokens == 0 and params.json_schema is not None:
            # The engine refuses every budget below the shortest document, too.
            raise FieldError(tokens_field, "must be at least 1 with a JSON schema, got 0", limit=1)
        num_choices = len(request.prompt) * request.n
        if num_choices > MAX_CHOICES:
            raise FieldError(
                "prompt",
                f"and n must ask for at most {MAX_CHOICES} texts together, got {num_choices}",
                limit=MAX_CHOICES,
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
                call = Call(
                    dialect=DIALECT,
                    model=used.model,
                    starts=[
                        raw_text(choice.prompt, choice.params, at_end=not request.stream)
                        for choice in choices
                    ],
                    prompts=[choice.name for choice in choices],
                    is_stream=request.stream,
                    session=session,
                )
                run = await stack.enter_async_context(self._services.generation.run(call))
                for choice in choices:
                    choice.run = run
            yield used, choices


def _params(request: OpenAiCompletionRequest) -> SamplingParams:
    if request.suffix:
        raise FieldError("suffix", "is not supported: put a model's own infill tokens into the prompt")
    if request.best_of is not None and request.best_of != request.n:
        raise FieldError("best_of", f"must equal n ({request.n}) if given, got {request.best_of}")
    schema = json_schema_of(request.response_format)
    if schema is None and request.json_schema is not None:
        schema = schema_text(request.json_schema, "json_schema")
    return sampling_params(
        request.sampling, max_tokens=request.max_tokens or 1, logprobs=request.logprobs, json_schema=schema
    )


@dataclass(slots=True)
class Choice:
    """One choice for one prompt."""

    engine: Engine
    request: OpenAiCompletionRequest
    prompt_index: int
    number: int
    base: SamplingParams
    run: Run[Stream] | None = None
    """`None` if nothing is to be generated."""
    echoed: str = ""
    echoed_logprobs: dict[str, Any] | None = None
    shown: logprobs.ShownTokens = field(default_factory=logprobs.ShownTokens)
    legacy: logprobs.LegacyLogprobs | None = None
    completion: Completion | None = None
    """Once it has ended."""

    @property
    def index(self) -> int:
        """Its place among the choices of the request."""
        return self.prompt_index * self.request.n + self.number

    @property
    def name(self) -> str:
        """How the client calls its prompt, if it sent several."""
        return f"prompt[{self.prompt_index}]" if len(self.request.prompt) > 1 else ""

    @property
    def prompt(self) -> str | list[int]:
        """The prompt of this choice."""
        return self.request.prompt[self.prompt_index]

    @property
    def params(self) -> SamplingParams:
        """The sampling parameters, with what keys the choice's draws."""
        return self.base.replace(choice_index=self.number) if self.number else self.base

    async def result(self) -> Completion:
        """The whole output.

        Raises:
            CallCancelledError: Another client cancelled it.
            ServerStoppingError: The server did.
        """
        if self.run is None:
            self.completion = await self._without_output()
        else:
            outputs = await self.run.outputs()
            self.completion = await outputs[self.index].result()
            self.run.check_end(self.completion.finish_reason, CallCancelledError)
        return self.completion

    async def _without_output(self) -> Completion:
        prompt = self.prompt
        ids = await self.engine.tokenize(prompt) if isinstance(prompt, str) else prompt
        return Completion(
            text="",
            tokens=(),
            finish_reason="length",
            usage=Usage(prompt_tokens=len(ids)),
            timings=Timings(),
            seed=self.params.seed or 0,
            stop=None,
        )

    async def prepare(self) -> None:
        """Finds the text that is echoed."""
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
        if self.legacy is None or self.run is None:
            return None
        tokens = self.shown.push(delta.text, delta.tokens)
        if is_last:
            tokens += self.shown.flush(stop)
        return self.legacy.render(tokens, await logprobs.load_texts(self.engine, tokens))


class _Answer:
    """All choices of a request as one answer."""

    def __init__(
        self, envelope: Envelope, request: OpenAiCompletionRequest, choices: Sequence[Choice]
    ) -> None:
        self._envelope = envelope
        self._request = request
        self._choices = choices

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        completions = [await choice.result() for choice in self._choices]
        shown = []
        for index, (choice, completion) in enumerate(zip(self._choices, completions, strict=True)):
            delta = Delta(text=completion.text, tokens=completion.tokens)
            lists = await choice.logprobs_of(delta, completion.stop, is_last=True)
            if lists is None:
                lists = choice.echoed_logprobs
            elif choice.echoed_logprobs is not None:
                lists = logprobs.joined(choice.echoed_logprobs, lists)
            shown.append(_choice(index, choice.echoed + completion.text, lists, completion.finish_reason))
        whole = self._envelope.fields(self._envelope.kind, shown)
        timings = answers.timings(completions[0].usage, completions[0].timings)
        return {**whole, "usage": self._usage(), "timings": timings}

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The answer as events."""
        for index, choice in enumerate(self._choices):
            if choice.run is None:
                await choice.result()
                yield self._frame(_choice(index, choice.echoed, choice.echoed_logprobs, "length"))
            elif self._request.echo:
                yield self._frame(_choice(index, choice.echoed, choice.echoed_logprobs, None))
        if (run := self._choices[0].run) is not None:
            async with aclosing(merged(await run.outputs())) as deltas:
                async for index, delta in deltas:
                    frame = await (self._last(index) if delta is None else self._part(index, delta))
                    if frame:
                        yield frame
        if self._request.stream_options.include_usage:
            yield answers.frame({**self._envelope.fields(self._envelope.kind, []), "usage": self._usage()})
        yield DONE

    async def _part(self, index: int, delta: Delta) -> bytes:
        lists = await self._choices[index].logprobs_of(delta, None, is_last=False)
        has_tokens = lists is not None and lists["tokens"]
        if not delta.text and not has_tokens:
            return b""
        return self._frame(_choice(index, delta.text, lists, None))

    async def _last(self, index: int) -> bytes:
        choice = self._choices[index]
        completion = await choice.result()
        rest = await choice.logprobs_of(Delta(text="", tokens=()), completion.stop, is_last=True)
        timings = answers.timings(completion.usage, completion.timings)
        return self._frame(_choice(index, "", rest, completion.finish_reason), timings=timings)

    def _frame(self, choice: dict[str, Any], **extra: Any) -> bytes:
        usage = {"usage": None} if self._request.stream_options.include_usage else {}
        return answers.frame({**self._envelope.fields(self._envelope.kind, [choice]), **usage, **extra})

    def _usage(self) -> dict[str, Any]:
        usages: dict[int, list[Usage]] = {}
        for choice in self._choices:
            if choice.completion is not None:
                usages.setdefault(choice.prompt_index, []).append(choice.completion.usage)
        return answers.usage(usages)


def _choice(index: int, text: str, lists: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": lists, "finish_reason": reason}
