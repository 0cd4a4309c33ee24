"""Plans a turn: messages and tools become the prompt of a model, in the way that its template takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio.to_thread

from llmserve.chat import ChatPrompt
from llmserve.engine import Engine
from llmserve.errors import InvalidParameterError, TemplateError
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import fallback
from llmserve.server.conversation.alternation import alternating
from llmserve.server.conversation.call_ids import with_short_ids
from llmserve.server.conversation.call_price import CallPrice, price_calls
from llmserve.server.conversation.checking import check_tools, price_arguments
from llmserve.server.conversation.known_formats import format_of
from llmserve.server.conversation.naming import client_field
from llmserve.server.conversation.reasoning import ReasoningTags, tags_of
from llmserve.server.conversation.reasoning_limit import NO_LIMIT, ReasoningLimit
from llmserve.server.conversation.reserve import reserve_of
from llmserve.server.conversation.roles import text_of, with_known_roles
from llmserve.server.conversation.tagged_call import PricedArgument
from llmserve.server.conversation.tool_formats import PLAIN, ToolFormat
from llmserve.server.conversation.tools import Tool, ToolMode
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.server.refusals import FieldError
from llmserve.templates.capabilities import capabilities
from llmserve.templates.environment import check, variables_of
from llmserve.templates.variants import choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The conversation that an assistant is to answer."""

    messages: Sequence[Mapping[str, Any]]
    tools: tuple[Tool, ...] = ()
    """All tools that the model is told of."""
    callable_tools: tuple[Tool, ...] = ()
    """The tools that it may call."""
    mode: ToolMode = "none"
    is_parallel: bool = True
    template: str | None = None
    """The chat template: Jinja, or the name of one of the model's; `None` is the model's own choice."""
    documents: Sequence[Mapping[str, Any]] = ()
    """Documents for the chat template."""
    names: Mapping[str, str] = field(default_factory=dict)
    """How the client calls messages and calls, if not `messages[i]`."""
    max_prompt_tokens: int | None = None
    """Of a longer prompt, only this number of tokens is read, the last ones."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Further variables for the chat template, and its options."""
    keeps_blanks: bool = False
    """Whether the blanks around reasoning are wanted."""
    reasoning_limit: ReasoningLimit = NO_LIMIT


@dataclass(frozen=True, slots=True)
class _Takes:
    """What a template does with tools and reasoning."""

    shows_tools: bool
    shows_calls_and_results: bool
    has_system: bool
    takes_systems: bool
    format: ToolFormat
    tags: ReasoningTags | None


def _found(source: str) -> _Takes:
    takes = capabilities(source)
    shows_calls_and_results = takes.shows_tool_calls and not takes.hides("tool")
    return _Takes(
        takes.shows_tools,
        shows_calls_and_results,
        takes.shows_systems,
        takes.takes_systems,
        format_of(source),
        tags_of(source),
    )


async def plan_turn(engine: Engine, conversation: Conversation, params: SamplingParams) -> TurnPlan:
    """The plan of a turn.

    Raises `TemplateError` if the chat template refuses the messages, `InvalidParameterError` for an invalid
    message, and `FieldError` for a template that cannot be used, or that does not show documents or a later
    system message.
    """
    tools = conversation.tools if conversation.mode != "none" else ()
    source = await _source(engine, conversation, has_tools=bool(tools))
    takes = await anyio.to_thread.run_sync(_found, source)
    messages: Sequence[Mapping[str, Any]] = with_known_roles(
        conversation.messages, source, takes_systems=takes.takes_systems
    )
    in_template: list[dict[str, Any]] | None = [tool.template_form for tool in tools] or None
    tool_format = takes.format
    if tools and not takes.shows_tools:
        messages, in_template, tool_format = (
            fallback.with_tools(messages, tools, has_system=takes.has_system),
            None,
            PLAIN,
        )
    elif _has_calls(messages) and not takes.shows_calls_and_results:
        messages = fallback.with_tools(messages, (), has_system=takes.has_system)
    if tool_format.id_style == "short":
        messages = with_short_ids(messages)
    await _check_documents(conversation, source)
    prices, arguments = await _priced(engine, conversation, tool_format)
    prompt = await _prompt(engine, conversation, messages, in_template)
    plan = TurnPlan(
        prompt=prompt,
        tokens=await _truncated(engine, prompt, conversation.max_prompt_tokens),
        params=params.replace(stop=(*params.stop, *prompt.stop)) if prompt.stop else params,
        tools=conversation.callable_tools,
        mode=conversation.mode,
        is_parallel=conversation.is_parallel,
        format=tool_format,
        arguments=arguments,
        prices=prices,
        tags=takes.tags,
        keeps_blanks=conversation.keeps_blanks,
        reasoning_limit=conversation.reasoning_limit,
        continued=_continued(conversation),
    )
    return replace(plan, reserve=await reserve_of(engine, plan))


async def _source(engine: Engine, conversation: Conversation, *, has_tools: bool) -> str:
    """The chat template; one that a client sent is compiled here, on another thread."""
    if conversation.template is None:
        return choose(engine.info, None, has_tools)
    try:
        source = choose(engine.info, conversation.template, has_tools)
        await anyio.to_thread.run_sync(check, source)
    except TemplateError as error:
        raise FieldError("chat_template", f"cannot be used: {error}") from None
    return source


async def _prompt(
    engine: Engine,
    conversation: Conversation,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
) -> ChatPrompt:
    """The prompt of the messages that a conversation's have become. Refusals name the client's fields."""
    variables = {**conversation.variables, **_documents(conversation)}
    num_merged = len(conversation.messages) - len(messages)

    async def render(shown: Sequence[Mapping[str, Any]]) -> ChatPrompt:
        return await engine.chat_prompt(shown, tools=tools, template=conversation.template, **variables)

    try:
        return await render(messages)
    except InvalidParameterError as error:
        raise error.named(client_field(error.field, conversation.names, num_merged)) from None
    except TemplateError:
        with contextlib.suppress(TemplateError, InvalidParameterError):
            if len(joined := alternating(messages)) < len(messages):
                return await render(joined)
        late = {index for index, message in enumerate(messages) if index and message.get("role") == "system"}
        with contextlib.suppress(TemplateError):
            if late:
                await render([message for index, message in enumerate(messages) if index not in late])
                raise FieldError(
                    client_field(f"messages[{min(late)}].role", conversation.names, num_merged),
                    "must not be system or developer: the template takes such a message first only",
                ) from None
        raise


async def _check_documents(conversation: Conversation, source: str) -> None:
    if conversation.documents and "documents" not in await anyio.to_thread.run_sync(variables_of, source):
        raise FieldError("documents", "are not read by the chat template of this model")


def _documents(conversation: Conversation) -> Mapping[str, Any]:
    return {"documents": list(conversation.documents)} if conversation.documents else {}


async def _truncated(engine: Engine, prompt: ChatPrompt, max_tokens: int | None) -> list[int] | None:
    return None if max_tokens is None else (await engine.tokenize(prompt))[-max_tokens:]


async def prompt_tokens(engine: Engine, plan: TurnPlan) -> list[int]:
    """The tokens of a plan's prompt."""
    return await engine.tokenize(plan.prompt) if plan.tokens is None else plan.tokens


async def _priced(
    engine: Engine, conversation: Conversation, tool_format: ToolFormat
) -> tuple[Mapping[str, CallPrice], Mapping[str, tuple[PricedArgument, ...]]]:
    """What calls cost, and what arguments between tags take; the schemas are checked."""
    tools = conversation.callable_tools
    if conversation.mode == "none":
        return {}, {}
    lengths = await check_tools(engine, tools)
    arguments: Mapping[str, tuple[PricedArgument, ...]] = {}
    if tool_format.tags is not None:
        arguments = await price_arguments(engine, tools, tool_format.tags)
    prices = await price_calls(engine, tools, tool_format, documents=lengths, between_tags=arguments)
    return prices, arguments


def check_plan(plan: TurnPlan, field: str, instead: str = "Use required or none as the tool choice") -> None:
    """Refuses a document that cannot be told from a call; `field` is the one that asks for the document.

    `instead` is what the client can do.

    Raises:
        FieldError: A document and a call of this model both begin with a brace.
    """
    if plan.is_constrained and plan.mode == "auto" and plan.format.begins_with_brace:
        raise FieldError(
            field,
            "cannot be used with tools that may be called here: this model's tool calls are JSON, too. "
            f"{instead}",
        )


def _continued(conversation: Conversation) -> str:
    """The text of the last message, if the turn goes on with it."""
    is_continued = conversation.variables.get("continue_final_message") and conversation.messages
    return text_of(conversation.messages[-1].get("content")) if is_continued else ""


def _has_calls(messages: Sequence[Mapping[str, Any]]) -> bool:
    return any(message.get("role") == "tool" or message.get("tool_calls") for message in messages)
