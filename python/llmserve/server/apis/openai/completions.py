"""`/v1/completions`: raw prompts, one or several, with any number of choices each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from llmserve import _core
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.answers import Envelope
from llmserve.server.apis.openai.completion_answer import CompletionAnswer
from llmserve.server.apis.openai.completion_choice import Choice
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.constraints import with_constraint
from llmserve.server.apis.openai.contents import COMPLETION_ERRORS, GENERATED, answered
from llmserve.server.apis.openai.for_model import for_model
from llmserve.server.apis.openai.reports import with_reports
from llmserve.server.apis.openai.sampling import check_prompt_logprobs, ignored_fields, sampling_params
from llmserve.server.apis.openai.schema import MAX_CHOICES
from llmserve.server.apis.openai.slot_choice import session_of_slot
from llmserve.server.error_shapes.openai import DIALECT, OPENAI
from llmserve.server.generation import Call, Run, raw_text
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.prompts.infill import Infill
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import wire_name
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.stream import Stream

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
        params = await with_constraint(request, _params(request), request.response_format)
        ignored = [*parsed.unknown, *ignored_fields(request, params, len(request.prompt) * request.num_drawn)]
        session = SESSION.of(exchange.request.scope)
        tokens_field = wire_name(request, "max_tokens")
        infill = _infill(request)
        async with self.submitted(request, params, session, tokens_field, infill) as (used, choices):
            envelope = Envelope("text_completion", "cmpl", used.entry.id, used.engine.info.fingerprint)
            headers = answer_headers(ignored, seed=params.seed)
            answer = CompletionAnswer(envelope, request, choices)
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
        tokens_field: str,
        infill: Infill | None = None,
    ) -> AsyncGenerator[tuple[UsedModel, list[Choice]], None]:
        """The choices of a request, which run within the context. `tokens_field` is `max_tokens` on the wire.

        With an `infill` the prompt is what it makes.

        Raises:
            FieldError: The choices are too many, or may have no token and must obey a constraint.
            LlmserveError: The request is refused.
        """
        is_constrained = (params.json_schema, params.regex, params.grammar) != (None, None, None)
        if request.num_tokens_wanted == 0 and is_constrained:
            # The engine refuses every budget below the shortest document, too.
            raise FieldError(tokens_field, "must be at least 1 with a constraint, got 0", limit=1)
        num_choices = len(request.prompt) * request.num_drawn
        if num_choices > MAX_CHOICES:
            name = "n" if request.best_of is None else "best_of"
            raise FieldError(
                "prompt",
                f"and {name} must ask for at most {MAX_CHOICES} texts together, got {num_choices}",
                limit=MAX_CHOICES,
            )
        if session is not None and num_choices > 1:
            raise FieldError("n", "and prompt must ask for one text when a session is named")
        if session is not None and request.num_prompt_alternatives is not None:
            raise FieldError(_scores_field(request), "cannot give a prompt's log-probabilities in a session")
        async with AsyncExitStack() as stack:
            used = await stack.enter_async_context(self._services.on_demand.use(request.model))
            params = await for_model(used, params, request)
            if infill is not None:
                infill.check(used.engine.info)
            params = with_reports(params, request, is_stream=request.stream)
            slot = session_of_slot(request, used.engine.info, session, num_choices)
            choices = [
                Choice(used.engine, request, prompt_index, number, params, infill)
                for prompt_index in range(len(request.prompt))
                for number in range(request.num_drawn)
            ]
            for choice in choices:
                await choice.prepare()
            if request.num_tokens_wanted != 0 or request.num_prompt_alternatives is not None:
                call = Call(
                    dialect=DIALECT,
                    model=used.model,
                    starts=[
                        raw_text(
                            choice.prompt,
                            choice.params,
                            at_end=choice.is_wanted_at_end,
                            append=slot is None,
                        )
                        for choice in choices
                    ],
                    prompts=[choice.name for choice in choices],
                    is_stream=request.stream,
                    session=slot or session,
                    goes_on=slot is None,
                )
                run = await stack.enter_async_context(self._services.generation.run(call))
                for choice in choices:
                    choice.run = run
                if not request.stream:
                    await _check_size(request, run)
            yield used, choices


def _params(request: OpenAiCompletionRequest) -> SamplingParams:
    if request.num_drawn < request.n:
        raise FieldError("best_of", f"must be at least n ({request.n}), got {request.num_drawn}")
    must_choose = request.num_drawn > request.n
    if must_choose and request.stream:
        raise FieldError("best_of", f"must be n ({request.n}) in a stream, got {request.num_drawn}")
    check_prompt_logprobs(request.prompt_logprobs, is_stream=request.stream)
    num_alternatives = request.num_prompt_alternatives
    least = 1 if num_alternatives is None else 0
    return sampling_params(
        request.sampling,
        max_tokens=request.num_tokens_wanted or least,
        logprobs=0 if must_choose and request.logprobs is None else request.logprobs,
        prompt_logprobs=num_alternatives,
    )


def _infill(request: OpenAiCompletionRequest) -> Infill | None:
    """What the prompt stands before, if anything."""
    if not request.suffix:
        return None
    (prefix, *others) = request.prompt
    if others or not isinstance(prefix, str):
        raise FieldError("suffix", "needs one prompt, which is a text")
    if request.echo:
        raise FieldError("echo", "cannot be used with suffix")
    return Infill(prefix=prefix, suffix=request.suffix, field="suffix")


def _scores_field(request: OpenAiCompletionRequest) -> str:
    """The field that asks for the prompt's log-probabilities."""
    return "logprobs" if request.prompt_logprobs is None else "prompt_logprobs"


async def _check_size(request: OpenAiCompletionRequest, run: Run[Stream]) -> None:
    """Bounds the prompts' part of a whole answer as the engine bounds that of each prompt.

    Raises:
        FieldError: It is too large.
    """
    if request.num_prompt_alternatives is None:
        return
    num_tokens = sum([await output.accepted() for output in await run.outputs()])
    num_scores = num_tokens * (1 + request.num_prompt_alternatives)
    if num_scores > (most := _core.MAX_PROMPT_LOGPROBS):
        raise FieldError(
            _scores_field(request), f"gives at most {most} log-probabilities of prompts, got {num_scores}"
        )
