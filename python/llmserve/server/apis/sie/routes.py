"""Routes of the SIE dialect."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmserve.engine import Engine
from llmserve.errors import DocumentTooLongError
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.sie import convert
from llmserve.server.apis.sie.headers import HEADERS
from llmserve.server.apis.sie.schema import GenerateRequest, GenerateResponse
from llmserve.server.error_shapes.sie import DIALECT, SIE
from llmserve.server.generation import Call, Run, raw_text
from llmserve.server.generation.deadlines import Deadlines, TimedStream
from llmserve.server.grammars.requested import read_grammar
from llmserve.server.models import SessionCall, UsedModel, safe_id
from llmserve.server.refusals import (
    GenerationCancelledError,
    UnsafeModelIdError,
)
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint, Route, routes_of
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.parameters import in_path
from llmserve.server.web.request_id import current_request_id
from llmserve.server.web.session_names import SESSION
from llmserve.stream import Stream

_STREAM_EXAMPLE = (
    'data: {"request_id":"b1","seq":0,"text_delta":" It","done":false}\n\n'
    'data: {"request_id":"b1","seq":1,"text_delta":"","done":true,"finish_reason":"stop","usage":'
    '{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10,'
    '"prompt_tokens_details":{"cached_tokens":0}},'
    '"ttft_ms":12.3}\n\ndata: [DONE]\n\n'
)

_EVENTS: Mapping[str, Any] = {
    "schema": {
        "type": "string",
        "description": "`data:` lines of JSON. Each has `request_id`, `seq` (from 0), `text_delta` and "
        "`done`, and `logprobs` if requested: for each token of the delta `token`, `logprob`, `bytes` "
        "(a list or null) and `top_logprobs`. The last has `done` true, `finish_reason`, `usage` and "
        "`ttft_ms`; after a failure `finish_reason` is `error`, and `error` has `code` and `message`. "
        "Then `data: [DONE]`.",
    },
    "examples": {"stream": {"summary": "A stream", "value": _STREAM_EXAMPLE}},
}

_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "The text, or a stream of it. `X-LLMServe-Seed` is the seed that was used.",
        {
            "application/json": {"schema": GenerateResponse},
            "text/event-stream": _EVENTS,
        },
    )
}

_ERRORS: Mapping[int, str] = {
    400: "`invalid_request`, `unsupported_field`, `context_exceeded`, or `MODEL_NOT_FOUND` for an id with a "
    "slash.",
    404: "`MODEL_NOT_FOUND`: there is no such model.",
    410: "`session_expired`: the next call begins the session anew.",
    413: "`INPUT_TOO_LONG`: the prompt is over its limit.",
    500: "`inference_error`: the model failed to compute.",
    502: "`MODEL_LOAD_FAILED`: the model cannot be loaded.",
    503: "`MODEL_LOADING` or `QUEUE_FULL`, with `Retry-After`, or `generation_cancelled`.",
    504: "`timeout`: one of the request's own time limits has passed.",
}

_MODEL = in_path("model", "The model's id with `__` in place of the slash, such as `Org__Name`.")

_GENERATE = Endpoint(
    path="/v1/generate/{model:path}",
    method="POST",
    dialect=SIE,
    operation_id="sieGenerate",
    summary="Generate text (SIE)",
    description=(
        "Generates text from a prompt with a model of the catalogue, which is loaded if necessary. The "
        "body is read strictly: unknown fields are refused. Every answer has `X-SIE-Request-ID` and "
        "`X-SIE-Server-Version`, every error `X-SIE-Error-Code`. The headers `X-SIE-Remote: forbid` and "
        "`X-SIE-MACHINE-PROFILE` are accepted and have no effect."
    ),
    parameters=[_MODEL, SESSION, *HEADERS],
    body=GenerateRequest,
    responses=_RESPONSES,
    errors=_ERRORS,
)


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    return routes_of(SieApi(services))


class SieApi:
    """The dialect over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_GENERATE
    async def generate(self, exchange: Exchange) -> None:
        """`POST /v1/generate/{model}`."""
        scope = exchange.request.scope
        model_id = _MODEL.of(scope)
        if "/" in model_id:
            raise UnsafeModelIdError(safe_id(model_id))
        for parameter in HEADERS:
            parameter.of(scope)
        session = SESSION.of(scope)
        request = await exchange.read_as(convert.read_request)
        lark = await _lark(request)
        wait_s = request.options.first_chunk_timeout_s or math.inf
        async with self._services.on_demand.use(model_id, wait_s=wait_s) as used:
            deadlines = Deadlines(convert.time_limits(request.options))
            context_length = used.engine.info.context_length
            cap = min(used.entry.max_new_tokens or context_length, context_length)
            convert.check_cap(request.max_new_tokens, cap)
            stops = await _stops(used.engine, request.options.stop_tokens)
            params = convert.sampling_params(request, stops, lark)
            wanted = _Wanted(request, params, used, deadlines)
            async with self._services.generation.run(wanted.call(session)) as run:
                await self._answer(exchange, wanted, run)

    async def _answer(self, exchange: Exchange, wanted: _Wanted, run: Run[_Output]) -> None:
        if wanted.request.stream:
            frames = convert.EventFrames(current_request_id())

            def render_error(error: Exception) -> bytes:
                return frames.failure(fault_of(error, DIALECT))

            await exchange.send_events(_events(wanted, run, frames), render_error, headers=wanted.headers())
            return
        output = await run.output()
        if not wanted.at_end:
            while await output.next() is not None:
                pass
        completion = await output.result()
        run.check_end(completion.finish_reason, GenerationCancelledError)
        await exchange.send_json(convert.answer(wanted.used.entry.id, completion), headers=wanted.headers())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One request with everything that was made from it."""

    request: GenerateRequest
    params: SamplingParams
    used: UsedModel
    deadlines: Deadlines

    @property
    def at_end(self) -> bool:
        """Whether the output is wanted in one piece."""
        return not self.request.stream and not self.deadlines.limits.need_each_output

    def headers(self) -> dict[str, str]:
        """The answer's headers beside those of every answer."""
        return answer_headers(convert.ignored_fields(self.request), seed=self.params.seed)

    def call(self, session: str | None) -> Call[_Output]:
        """The call for the generation service."""
        return Call(
            dialect=DIALECT,
            model=self.used.model,
            starts=[self._start],
            is_stream=self.request.stream,
            session=session,
            deadlines=self.deadlines,
        )

    async def _start(self, engine: Engine, call: SessionCall | None) -> _Output:
        if call is not None:
            await self._check_session(engine, call)
        stream = await raw_text(self.request.prompt, self.params, at_end=self.at_end)(engine, call)
        return _Output(self, stream)

    async def _check_session(self, engine: Engine, call: SessionCall) -> None:
        """Refuses a request that does not fit before the session's tokens can change."""
        num_tokens = call.session.num_tokens
        prompt = await engine.tokenize(self.request.prompt, add_special=num_tokens == 0)
        context_length = engine.info.context_length
        convert.check_length(num_tokens + len(prompt), self.request.max_new_tokens, context_length)


class _Output(TimedStream):
    """The output of a request, which is accepted only if it can have all of its tokens."""

    def __init__(self, wanted: _Wanted, stream: Stream) -> None:
        super().__init__(stream, wanted.deadlines)
        self._num_wanted = wanted.request.max_new_tokens
        self._context_length = wanted.used.engine.info.context_length

    async def accepted(self) -> int:
        """The number of prompt tokens.

        Raises:
            RequestError: The request was refused, or prompt and output do not fit into the context.
            GenerationTimeoutError: A time limit has passed.
        """
        try:
            num_prompt_tokens = await super().accepted()
        except DocumentTooLongError as error:
            num_prompt_tokens = error.prompt_tokens
        convert.check_length(num_prompt_tokens, self._num_wanted, self._context_length)
        return num_prompt_tokens


async def _events(
    wanted: _Wanted, run: Run[_Output], frames: convert.EventFrames
) -> AsyncGenerator[bytes, None]:
    output = await run.output()
    await output.accepted()
    while (delta := await output.next()) is not None:
        pieces = None
        if wanted.request.logprobs:
            shown = list(convert.shown_tokens(delta))
            pieces = dict(zip(shown, await wanted.used.engine.token_bytes(shown), strict=True))
        if frame := frames.delta(delta, pieces):
            yield frame
    completion = await output.result()
    run.check_end(completion.finish_reason, GenerationCancelledError)
    yield frames.end(completion)


async def _lark(request: GenerateRequest) -> str | None:
    if request.grammar is None or request.grammar.ebnf is None:
        return None
    return await read_grammar(request.grammar.ebnf, "grammar.ebnf")


async def _stops(engine: Engine, texts: Sequence[str]) -> convert.Stops:
    """What `stop_tokens` end the output at: a token each, where a text is one."""
    ids, strings = [], []
    for text in texts:
        tokens = await engine.tokenize(text, add_special=False)
        if len(tokens) == 1:
            ids += tokens
        else:
            strings.append(text)
    return convert.Stops(ids, strings)
