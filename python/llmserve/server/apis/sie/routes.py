"""Routes of the SIE dialect."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.sie import convert
from llmserve.server.apis.sie.deadlines import Deadlines
from llmserve.server.apis.sie.errors import DIALECT, SIE
from llmserve.server.apis.sie.headers import check_headers
from llmserve.server.apis.sie.schema import GenerateError, GenerateRequest, GenerateResponse
from llmserve.server.models import SessionCall, UsedModel, safe_id
from llmserve.server.refusals import (
    FieldError,
    GenerationCancelledError,
    ServerStoppingError,
    UnsafeModelIdError,
)
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint, Route, json_of, routes_of
from llmserve.server.web.errors import fault_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.request_id import current_request_id
from llmserve.server.web.session_names import header_session
from llmserve.stream import Stream
from llmserve.types import Completion, Delta

_ERROR = json_of(GenerateError)

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
        "`done`, and `logprobs` where asked for: for each token of the delta `token`, `logprob`, `bytes` "
        "(a list or null) and `top_logprobs`. The last has `done` true, `finish_reason`, `usage` and "
        "`ttft_ms`; after a failure `finish_reason` is `error`, and `error` holds `code` and `message`. "
        "Then `data: [DONE]`.",
    },
    "examples": {"stream": {"summary": "A stream", "value": _STREAM_EXAMPLE}},
}

_RESPONSES: Mapping[int, Content] = {
    200: Content(
        "The text, or the stream of it. `X-LLMServe-Seed` holds the seed that was used.",
        {
            "application/json": {"schema": GenerateResponse},
            "text/event-stream": _EVENTS,
        },
    ),
    400: Content(
        "`invalid_request`, `unsupported_field`, `context_exceeded`, or `MODEL_NOT_FOUND` for an id with a "
        "slash.",
        _ERROR,
    ),
    401: Content("`unauthorized`: the server wants an API key.", _ERROR),
    404: Content("`MODEL_NOT_FOUND`: there is no such model.", _ERROR),
    410: Content("`session_expired`: the next call begins the session anew.", _ERROR),
    408: Content("The body did not arrive in time.", _ERROR),
    413: Content("`INPUT_TOO_LONG`: the prompt or the body is over its limit.", _ERROR),
    500: Content("`inference_error`: the model failed to compute.", _ERROR),
    502: Content("`MODEL_LOAD_FAILED`: the model cannot be loaded.", _ERROR),
    503: Content(
        "`MODEL_LOADING` or `QUEUE_FULL`, with `Retry-After`, or `generation_cancelled`.",
        _ERROR,
    ),
    504: Content("`timeout`: one of the request's own time limits has passed.", _ERROR),
}

_GENERATE = Endpoint(
    path="/v1/generate/{model:path}",
    method="POST",
    dialect=SIE,
    operation_id="sieGenerate",
    summary="Generate text (SIE)",
    description=(
        "Generates text from a prompt with a model of the catalogue, which is loaded if it is not. The "
        "body is read strictly: unknown fields are refused. Every answer has `X-SIE-Request-ID` and "
        "`X-SIE-Server-Version`, every error `X-SIE-Error-Code`. The headers `X-SIE-Remote: forbid` and "
        "`X-SIE-MACHINE-PROFILE` are accepted and have no effect."
    ),
    parameters={"model": "The id with `__` in place of the slash, such as `Org__Name`."},
    body=GenerateRequest,
    responses=_RESPONSES,
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
        model_id = exchange.request.path_params["model"]
        if "/" in model_id:
            raise UnsafeModelIdError(safe_id(model_id))
        check_headers(scope)
        session = header_session(scope)
        request = await exchange.read_as(convert.read_request)
        lark = await _lark(request)
        wait_s = request.options.first_chunk_timeout_s or math.inf
        async with self._services.on_demand.use(model_id, wait_s=wait_s) as used:
            deadlines = Deadlines(request.options)
            context_length = used.engine.info.context_length
            cap = min(used.entry.max_new_tokens or context_length, context_length)
            convert.check_cap(request.max_new_tokens, cap)
            stop_token_ids = await _stop_token_ids(used.engine, request.options.stop_tokens)
            params = convert.sampling_params(request, stop_token_ids, lark)
            run = _Run(request, params, used, deadlines)
            async with self._submitted(run, session) as stream:
                await self._answer(exchange, run, stream)

    @asynccontextmanager
    async def _submitted(self, run: _Run, session: str | None) -> AsyncGenerator[Stream, None]:
        """The running request, as a call of its session where it has one."""
        prompt, at_end = run.request.prompt, run.at_end
        if session is None:
            async with run.used.engine.stream(prompt, run.params, at_end=at_end) as stream:
                yield stream
            return
        with self._services.sessions.call(run.used.model, session, DIALECT, goes_on=True) as call:
            async with call.submitting() as used:
                await _check_session(run, call)
                stream = run.used.engine.stream(prompt, run.params, session=used, append=True, at_end=at_end)
                call.attach(stream)
            async with stream:
                yield stream

    async def _answer(self, exchange: Exchange, run: _Run, stream: Stream) -> None:
        with self._services.lifecycle.running(stream.abort):
            # Refusals are raised here, while the answer can still have their status.
            with anyio.move_on_after(self._services.settings.sse_ping_s if run.request.stream else None):
                await run.accepted(stream)
            if self._services.lifecycle.is_stopping:  # then it was aborted
                raise ServerStoppingError
            if run.request.stream:
                await self._send_stream(exchange, run, stream)
            else:
                completion = await run.completion(stream)
                self._check_end(completion)
                answer = convert.answer(run.used.entry.id, completion)
                await exchange.send_json(answer, headers=run.headers())

    async def _send_stream(self, exchange: Exchange, run: _Run, stream: Stream) -> None:
        frames = convert.EventFrames(current_request_id())

        async def events() -> AsyncGenerator[bytes, None]:
            await run.accepted(stream)
            while (delta := await run.next_delta(stream)) is not None:
                pieces = None
                if run.request.logprobs:
                    shown = list(convert.shown_tokens(delta))
                    pieces = dict(zip(shown, await run.used.engine.token_bytes(shown), strict=True))
                if frame := frames.delta(delta, pieces):
                    yield frame
            completion = await stream.result()
            self._check_end(completion)
            yield frames.end(completion)

        def render_error(error: Exception) -> bytes:
            return frames.failure(fault_of(error, DIALECT))

        await exchange.send_events(events(), render_error, headers=run.headers())

    def _check_end(self, completion: Completion) -> None:
        if completion.finish_reason == "cancelled":
            raise ServerStoppingError if self._services.lifecycle.is_stopping else GenerationCancelledError


@dataclass(frozen=True, slots=True)
class _Run:
    """One request with all that was made of it."""

    request: GenerateRequest
    params: SamplingParams
    used: UsedModel
    deadlines: Deadlines

    @property
    def at_end(self) -> bool:
        """Whether its output is wanted in one piece."""
        return not self.request.stream and not self.deadlines.needs_each_output

    def headers(self) -> dict[str, str]:
        """The answer's headers beside those of every answer."""
        headers = {"X-LLMServe-Seed": str(self.params.seed)}
        if ignored := convert.ignored_fields(self.request):
            headers["X-LLMServe-Ignored"] = ignored_header(ignored)
        return headers

    async def accepted(self, stream: Stream) -> None:
        """Waits until the engine has taken the request.

        Raises:
            RequestError: It was refused, or prompt and output do not fit into the context.
            GenerationTimeoutError: A limit has passed.
        """
        num_wanted, context_length = self.request.max_new_tokens, self.used.engine.info.context_length
        try:
            num_prompt_tokens = await self.deadlines.wait(stream.accepted)
        except BudgetTooSmallError as error:
            raise convert.budget_refusal(error, num_wanted, context_length) from None
        convert.check_length(num_prompt_tokens, num_wanted, context_length)

    async def next_delta(self, stream: Stream) -> Delta | None:
        """The next output, ``None`` after the last.

        Raises:
            GenerationTimeoutError: A limit has passed.
        """
        try:
            return await self.deadlines.next_output(stream.__anext__)
        except StopAsyncIteration:
            return None

    async def completion(self, stream: Stream) -> Completion:
        """The whole output.

        Raises:
            GenerationTimeoutError: A limit has passed.
        """
        if not self.at_end:
            while await self.next_delta(stream) is not None:
                pass
        return await self.deadlines.wait(stream.result)


async def _check_session(run: _Run, call: SessionCall) -> None:
    """Refuses what does not fit before the session's tokens can change."""
    engine, num_tokens = run.used.engine, call.session.num_tokens
    prompt = await engine.tokenize(run.request.prompt, add_special=num_tokens == 0)
    convert.check_length(num_tokens + len(prompt), run.request.max_new_tokens, engine.info.context_length)


async def _lark(request: GenerateRequest) -> str | None:
    if request.grammar is None or request.grammar.ebnf is None:
        return None
    # A large grammar takes some time.
    return await anyio.to_thread.run_sync(convert.lark_grammar, request.grammar.ebnf)


async def _stop_token_ids(engine: Engine, texts: Sequence[str]) -> list[int]:
    """The tokens that texts are.

    Raises:
        FieldError: One is several tokens.
    """
    found = []
    for index, text in enumerate(texts):
        tokens = await engine.tokenize(text, add_special=False)
        if len(tokens) != 1:
            reason = f"must be one token of the model's vocabulary, got {len(tokens)}; `stop` takes any text"
            raise FieldError(f"options.stop_tokens[{index}]", reason)
        found += tokens
    return found
