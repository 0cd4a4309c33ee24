"""`/api/chat` and `/api/generate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from llmserve._binding.loaded import Prompt
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.ollama import convert
from llmserve.server.apis.ollama.answers import Answer, Clock, chat_part, render_error, text_part
from llmserve.server.apis.ollama.contents import GENERATION_ERRORS, answered
from llmserve.server.apis.ollama.models import OllamaModels
from llmserve.server.apis.ollama.outputs import ChatOutput, Output, PromptOutput, RawOutput, going_on
from llmserve.server.apis.ollama.parts import Parts
from llmserve.server.apis.ollama.schema import OllamaChatRequest, OllamaGenerateRequest, OllamaRequest
from llmserve.server.apis.ollama.thinking import check_thinking
from llmserve.server.conversation import Conversation, TurnPlan, check_plan
from llmserve.server.error_shapes.ollama import DIALECT, OLLAMA
from llmserve.server.fields.sampling import with_defaults
from llmserve.server.generation import Call, Running, raw_text, turns
from llmserve.server.models import UsedModel
from llmserve.server.prompts.infill import Infill
from llmserve.server.refusals import CallCancelledError, FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange, Headers
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.stream import Stream
from llmserve.types import FinishReason

_R = TypeVar("_R", bound=Running)

_EXAMPLE = {
    "model": "SmolLM2-135M-Instruct.Q4_1:latest",
    "created_at": "2026-01-01T00:00:00.000000Z",
    "done": True,
    "done_reason": "stop",
    "total_duration": 412000000,
    "load_duration": 81000,
    "prompt_eval_count": 12,
    "prompt_eval_duration": 58000000,
    "eval_count": 3,
    "eval_duration": 51000000,
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, and what its answer is made of."""

    exchange: Exchange
    request: OllamaRequest
    answer: Answer
    headers: Headers

    @property
    def session(self) -> str | None:
        """The name of its session."""
        return SESSION.of(self.exchange.request.scope)


class GenerationApi:
    """The routes over the shared services."""

    def __init__(self, services: Services, models: OllamaModels) -> None:
        self._services = services
        self._models = models

    @Endpoint(
        path="/api/chat",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaChat",
        summary="Answer a conversation, as Ollama does",
        description=(
            "Generates the assistant's next turn: reasoning, words and tool calls, whose arguments always "
            "match the schemas of their tools. A last message of the assistant is continued."
        ),
        body=OllamaChatRequest,
        responses=answered(
            {**_EXAMPLE, "message": {"role": "assistant", "content": "Paris."}}, has_stream=True
        ),
        errors=GENERATION_ERRORS,
        parameters=[SESSION],
    )
    async def chat(self, exchange: Exchange) -> None:
        """`POST /api/chat`."""
        clock = Clock()
        parsed = await exchange.read(OllamaChatRequest)
        request = parsed.value
        answer = Answer(request.model, chat_part, clock)
        if not request.messages:
            await self._load(exchange, request, answer)
            return
        params, conversation = convert.sampling_params(request), convert.chat_conversation(request)
        asked = _Asked(exchange, request, answer, _headers(parsed.unknown, request, params))
        async with self._models.use(request.model, request.keep_alive) as used:
            clock.load_ended()
            plan = await self._plan(used, conversation, params, request)
            call = turns(plan, dialect=DIALECT, model=used.model, session=asked.session)
            await self._send(asked, used, call, ChatOutput)

    @Endpoint(
        path="/api/generate",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaGenerate",
        summary="Answer a prompt, as Ollama does",
        description=(
            "Answers a prompt as the only message of a chat, or with `raw` goes on with it, or with `suffix` "
            "writes what comes between the two. `context` is deprecated in Ollama; `/api/chat` takes whole "
            "conversations."
        ),
        body=OllamaGenerateRequest,
        responses=answered({**_EXAMPLE, "response": "Paris.", "context": [1, 2, 3]}, has_stream=True),
        errors=GENERATION_ERRORS,
        parameters=[SESSION],
    )
    async def generate(self, exchange: Exchange) -> None:
        """`POST /api/generate`."""
        clock = Clock()
        parsed = await exchange.read(OllamaGenerateRequest)
        request = parsed.value
        answer = Answer(request.model, text_part, clock)
        infill = (
            Infill(prefix=request.prompt, suffix=request.suffix, field="suffix") if request.suffix else None
        )
        if infill is None and not request.prompt:
            await self._load(exchange, request, answer)
            return
        convert.check_raw(request)
        params = convert.sampling_params(request)
        conversation = convert.prompt_conversation(
            request, may_bring_template=self._services.settings.request_chat_template
        )
        asked = _Asked(exchange, request, answer, _headers(parsed.unknown, request, params))
        async with self._models.use(request.model, request.keep_alive) as used:
            clock.load_ended()
            if request.raw or infill is not None:
                prompt: Prompt = request.prompt
                if infill is not None:
                    infill.check(used.engine.info)
                    prompt = await infill.tokens(used.engine, params.max_tokens)
                await self._send(asked, used, _raw_call(asked, used, prompt, params), RawOutput)
                return
            plan = await self._plan(used, conversation, params, request)
            plan = await going_on(used.engine, plan, request.context)
            call = turns(plan, dialect=DIALECT, model=used.model, session=asked.session)
            await self._send(asked, used, call, PromptOutput)

    async def _load(self, exchange: Exchange, request: OllamaRequest, answer: Answer) -> None:
        """Loads the model, or unloads it if it is not to be kept."""
        if request.keep_alive == 0:
            await self._models.unload(request.model)
            await exchange.send_json(answer.without_output("unload"))
            return
        async with self._models.use(request.model, request.keep_alive):
            await exchange.send_json(answer.without_output("load"))

    async def _plan(
        self, used: UsedModel, conversation: Conversation, params: SamplingParams, request: OllamaRequest
    ) -> TurnPlan:
        await check_thinking(used, conversation.template, request.think)
        params = with_defaults(params, used.entry.default_sampling, request.options.sampling)
        try:
            plan = await self._services.generation.plan(used, conversation, params, is_stream=request.stream)
        except FieldError as error:
            raise FieldError("template", error.reason) if error.field == "chat_template" else error from None
        check_plan(plan, "format", instead="Use one of them")
        return plan

    async def _send(
        self, asked: _Asked, used: UsedModel, call: Call[_R], output_of: Callable[[_R], Output]
    ) -> None:
        exchange, answer, headers = asked.exchange, asked.answer, asked.headers
        async with self._services.generation.run(call) as run:

            async def begin() -> Parts:
                output = output_of(await run.output())
                return Parts(used.engine, output, has_logprobs=asked.request.logprobs)

            def check_end(reason: FinishReason) -> None:
                run.check_end(reason, CallCancelledError)

            if asked.request.stream:
                await exchange.send_lines(answer.lines(begin, check_end), render_error, headers=headers)
            else:
                await exchange.send_json(await answer.whole(await begin(), check_end), headers=headers)


def _raw_call(asked: _Asked, used: UsedModel, prompt: Prompt, params: SamplingParams) -> Call[Stream]:
    params = with_defaults(params, used.entry.default_sampling, asked.request.options.sampling)
    return Call(
        dialect=DIALECT,
        model=used.model,
        starts=[raw_text(prompt, params, at_end=not asked.request.stream)],
        is_stream=asked.request.stream,
        session=asked.session,
    )


def _headers(unknown: tuple[str, ...], request: OllamaRequest, params: SamplingParams) -> Headers:
    ignored = [*unknown, *(["options.stop"] if request.format and params.stop else [])]
    return answer_headers(ignored, seed=params.seed)
