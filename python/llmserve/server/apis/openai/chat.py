"""`/v1/chat/completions`."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.answers import Envelope
from llmserve.server.apis.openai.chat_choice import ChatChoice
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.constraints import constraint_field, with_constraint
from llmserve.server.apis.openai.contents import GENERATED, GENERATION_ERRORS, answered, without_version
from llmserve.server.apis.openai.conversations import chat_params, conversation_of
from llmserve.server.apis.openai.for_model import for_model
from llmserve.server.apis.openai.prompt_logprobs import prompt_logprobs
from llmserve.server.apis.openai.reports import with_reports
from llmserve.server.apis.openai.sampling import ignored_fields
from llmserve.server.apis.openai.slot_choice import session_of_slot
from llmserve.server.conversation import Piece, Turn, TurnEnd, Words, check_plan
from llmserve.server.error_shapes.openai import DIALECT, OPENAI
from llmserve.server.generation import Run, merged, turns
from llmserve.server.refusals import CallCancelledError, FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.sse import DONE
from llmserve.types import PromptToken

_CHUNK = "chat.completion.chunk"

_MESSAGE = {"role": "assistant", "content": "Paris.", "refusal": None}
_EXAMPLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1767225600,
    "model": "SmolLM2-135M-Instruct.Q4_1",
    "choices": [{"index": 0, "message": _MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}

_CHAT = Endpoint(
    path="/v1/chat/completions",
    method="POST",
    dialect=OPENAI,
    operation_id="createChatCompletion",
    summary="Answer a conversation",
    description=(
        "Generates the assistant's next turn: reasoning, words and tool calls. The arguments of calls "
        "always match the schemas of their tools."
    ),
    body=ChatRequest,
    responses=answered(GENERATED, _EXAMPLE, has_stream=True),
    errors=GENERATION_ERRORS,
    parameters=[SESSION],
)


class ChatApi:
    """The route over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_CHAT
    @without_version(_CHAT)
    async def serve(self, exchange: Exchange) -> None:
        """`POST /v1/chat/completions`."""
        parsed = await exchange.read(ChatRequest)
        request = parsed.value
        conversation = conversation_of(
            request, may_bring_template=self._services.settings.request_chat_template
        )
        params = await with_constraint(request, chat_params(request), request.response_format)
        session = SESSION.of(exchange.request.scope)
        if session is not None and request.n > 1:
            raise FieldError("n", f"must be 1 where a session is named, got {request.n}", limit=1)
        headers = answer_headers(
            [*parsed.unknown, *ignored_fields(request, params, request.n)], seed=params.seed
        )
        async with self._services.on_demand.use(request.model) as used:
            params = await for_model(used, params, request)
            params = with_reports(params, request, is_stream=request.stream)
            slot = session_of_slot(request, used.engine.info, session, request.n)
            has_parts = request.stream or request.time_limit_s is not None
            plan = await self._services.generation.plan(used, conversation, params, is_stream=has_parts)
            check_plan(plan, constraint_field(request, params))
            envelope = Envelope("chat.completion", "chatcmpl", used.entry.id, used.engine.info.fingerprint)
            call = turns(
                plan, dialect=DIALECT, model=used.model, session=slot or session, num_choices=request.n
            )
            async with self._services.generation.run(call) as run:
                make = functools.partial(ChatChoice, engine=used.engine, request=request)
                answer = _Answer(envelope, run, make)
                if request.stream:
                    frames = answer.frames(with_usage=request.stream_options.include_usage)
                    await exchange.send_events(frames, answers.render_error, headers=headers)
                else:
                    whole = await answer.whole()
                    if (num_top := request.prompt_logprobs) is not None:
                        shown = await prompt_logprobs(used.engine, answer.prompt(), num_top)
                        whole["prompt_logprobs"] = shown
                    await exchange.send_json(whole, headers=headers)


class _Answer:
    """All choices of a request as one answer."""

    def __init__(self, envelope: Envelope, run: Run[Turn], make: Callable[[int, Turn], ChatChoice]) -> None:
        self._envelope = envelope
        self._run = run
        self._make = make
        self._choices: list[ChatChoice] = []

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        await self._begin()
        async with aclosing(merged(self._sources())) as pieces:
            async for index, piece in pieces:
                if piece is not None:
                    await self._choices[index].add(piece)
        ends = [self._check_end(choice) for choice in self._choices]
        shown = [await choice.whole() for choice in self._choices]
        whole = self._envelope.fields(self._envelope.kind, shown)
        timings = answers.timings(ends[0].usage, ends[0].timings)
        return {**whole, "usage": self._usage(), "timings": timings}

    def prompt(self) -> Sequence[PromptToken]:
        """The prompt's tokens, once the answer is whole."""
        return self._choices[0].turn.end.prompt

    async def frames(self, *, with_usage: bool) -> AsyncGenerator[bytes, None]:
        """The answer as events."""
        usage: dict[str, Any] = {"usage": None} if with_usage else {}
        await self._begin()
        for choice in self._choices:
            yield self._frame([choice.first()], **usage)
        async with aclosing(merged(self._sources())) as pieces:
            async for index, piece in pieces:
                choice = self._choices[index]
                if piece is None:
                    end = self._check_end(choice)
                    timings = answers.timings(end.usage, end.timings)
                    yield self._frame([await choice.last()], **usage, timings=timings)
                elif isinstance(piece, Words) and piece.progress is not None:
                    if report := choice.reports.of_prompt(piece.progress):
                        yield self._frame([choice.nothing()], **usage, **report)
                elif (shown := await choice.add(piece)) is not None:
                    report = choice.reports.of_output(choice.turn.num_tokens)
                    yield self._frame([shown], **usage, **report)
        if with_usage:
            end = self._choices[0].turn.end
            yield self._frame([], usage=self._usage(), timings=answers.timings(end.usage, end.timings))
        yield DONE

    async def _begin(self) -> None:
        """Waits until the turns have begun."""
        self._choices = [self._make(index, turn) for index, turn in enumerate(await self._run.outputs())]

    def _sources(self) -> list[AsyncGenerator[Piece, None]]:
        return [choice.turn.pieces() for choice in self._choices]

    def _check_end(self, choice: ChatChoice) -> TurnEnd:
        self._run.check_end(choice.turn.end.finish_reason, CallCancelledError)
        return choice.turn.end

    def _frame(self, choices: list[dict[str, Any]], **extra: Any) -> bytes:
        return answers.frame({**self._envelope.fields(_CHUNK, choices), **extra})

    def _usage(self) -> dict[str, Any]:
        ends = [choice.turn.end for choice in self._choices]
        return answers.usage({0: [end.usage for end in ends]}, sum(end.reasoning_tokens for end in ends))
