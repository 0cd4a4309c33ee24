"""`/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.answers import Envelope
from llmserve.server.apis.openai.chat_choice import ChatChoice
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.contents import GENERATED, responses_with, without_version
from llmserve.server.apis.openai.conversations import chat_params, conversation_of
from llmserve.server.apis.openai.ends import check_end
from llmserve.server.apis.openai.errors import OPENAI
from llmserve.server.apis.openai.grammar import with_grammar
from llmserve.server.apis.openai.merging import merged
from llmserve.server.apis.openai.running import choice_plans, running_turns
from llmserve.server.apis.openai.sampling import ignored_fields
from llmserve.server.conversation import TurnPlan, plan_turn
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.session_names import header_session
from llmserve.server.web.sse import DONE

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
    responses=responses_with(GENERATED, _EXAMPLE, has_stream=True),
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
        conversation = conversation_of(request)
        params = await with_grammar(request, chat_params(request))
        session = header_session(exchange.request.scope)
        headers = answers.headers(params.seed, [*parsed.unknown, *ignored_fields(request, params)])
        async with self._services.on_demand.use(request.model) as used:
            plan = await plan_turn(used.engine, conversation, params)
            check_plan(plan)
            plans = choice_plans(replace(plan, at_end=not request.stream), request.n)
            envelope = Envelope("chat.completion", "chatcmpl", used.entry.id, used.engine.info.fingerprint)
            async with running_turns(self._services, used, plans, session) as turns:
                choices = [
                    ChatChoice(index, turn, used.engine, has_logprobs=request.logprobs)
                    for index, turn in enumerate(turns)
                ]
                run = _Run(self._services.lifecycle, envelope, choices)
                if request.stream:
                    frames = run.frames(with_usage=request.stream_options.include_usage)
                    await exchange.send_events(frames, answers.render_error, headers=headers)
                else:
                    await exchange.send_json(await run.answer(), headers=headers)


def check_plan(plan: TurnPlan, field: str = "response_format") -> None:
    """Refuses what cannot be told apart.

    Raises:
        FieldError: Both a document and a call of this model begin with a brace.
    """
    if plan.is_constrained and plan.mode == "auto" and plan.format.begins_with_brace:
        raise FieldError(
            "grammar" if plan.params.grammar is not None else field,
            "cannot be used with tool_choice auto here: this model's tool calls are JSON too. "
            "Use required or none",
        )


class _Run:
    """All choices of a request as one answer."""

    def __init__(self, lifecycle: Lifecycle, envelope: Envelope, choices: Sequence[ChatChoice]) -> None:
        self._lifecycle = lifecycle
        self._envelope = envelope
        self._choices = choices

    async def answer(self) -> dict[str, Any]:
        """The whole answer."""
        async with aclosing(self._pieces()) as pieces:
            async for _ in pieces:
                pass
        for choice in self._choices:
            check_end(self._lifecycle, choice.turn.end.finish_reason)
        shown = [await choice.whole() for choice in self._choices]
        whole = self._envelope.fields(self._envelope.kind, shown)
        return {**whole, "usage": self._usage(), "timings": self._timings(self._choices[0])}

    async def frames(self, *, with_usage: bool) -> AsyncGenerator[bytes, None]:
        """The answer as events."""
        usage: dict[str, Any] = {"usage": None} if with_usage else {}
        for choice in self._choices:
            yield self._frame([choice.first()], **usage)
        async with aclosing(self._pieces()) as pieces:
            async for index, shown in pieces:
                choice = self._choices[index]
                if shown is not None:
                    yield self._frame([shown], **usage)
                    continue
                check_end(self._lifecycle, choice.turn.end.finish_reason)
                yield self._frame([await choice.last()], **usage, timings=self._timings(choice))
        if with_usage:
            yield self._frame([], usage=self._usage())
        yield DONE

    async def _pieces(self) -> AsyncGenerator[tuple[int, dict[str, Any] | None], None]:
        """What is new of each choice; `None` at its end."""
        async with aclosing(merged([_shown(choice) for choice in self._choices])) as pieces:
            async for item in pieces:
                yield item

    def _frame(self, choices: list[dict[str, Any]], **extra: Any) -> bytes:
        return answers.frame({**self._envelope.fields(_CHUNK, choices), **extra})

    def _usage(self) -> dict[str, Any]:
        return answers.usage({0: [answers.turn_cost(choice.turn.end) for choice in self._choices]})

    def _timings(self, choice: ChatChoice) -> dict[str, Any]:
        return answers.timings(answers.turn_cost(choice.turn.end))


async def _shown(choice: ChatChoice) -> AsyncGenerator[dict[str, Any] | None, None]:
    async with aclosing(choice.turn.pieces()) as pieces:
        async for piece in pieces:
            if (shown := await choice.add(piece)) is not None:
                yield shown
    yield None
