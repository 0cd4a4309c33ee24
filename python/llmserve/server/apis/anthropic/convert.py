"""A request of the dialect as a conversation that an assistant answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.anthropic.history import history_of
from llmserve.server.apis.anthropic.schema import MESSAGES_SAMPLING, MessagesRequest, ThinkingConfig
from llmserve.server.apis.anthropic.tools import choose_tools, tools_of
from llmserve.server.conversation import Conversation, ReasoningLimit
from llmserve.server.conversation.json_formats import schema_text
from llmserve.server.conversation.messages import reasoning_variables, turn_variables, variables_of
from llmserve.server.conversation.reasoning_limit import NO_REASONING
from llmserve.server.fields import sampling
from llmserve.server.refusals import FieldError, ThreadsNotStoredError
from llmserve.server.web.schema import shown


def conversation_of(request: MessagesRequest) -> Conversation:
    """The conversation.

    Raises:
        FieldError: A field is wrong, or asks for something unsupported.
    """
    if request.thread is not None:
        raise ThreadsNotStoredError("thread")
    tools = tools_of(request)
    mode, callable_tools = choose_tools(request, tools)
    history = history_of(request)
    thinks, limit = _reasoning(request.thinking)
    return Conversation(
        messages=history.messages,
        names=history.names,
        tools=tools,
        callable_tools=callable_tools,
        mode=mode,
        is_parallel=not request.tool_choice.disable_parallel_tool_use,
        reasoning_limit=limit,
        variables={
            **variables_of(thinks, request.output_config.effort),
            **turn_variables(is_continued=history.continues),
        },
    )


def _reasoning(thinking: ThinkingConfig | None) -> tuple[dict[str, bool], ReasoningLimit]:
    """What tells templates whether to reason, and for how long: not at all unless that is asked for, even if
    the template has nothing to turn it off with."""
    if thinking is None or thinking.type == "disabled":
        return reasoning_variables(is_on=False), NO_REASONING
    return reasoning_variables(is_on=True), ReasoningLimit(thinking.budget_tokens)


def params_of(request: MessagesRequest) -> SamplingParams:
    """The parameters, without what the model decides.

    Raises:
        FieldError: A field is wrong.
        InvalidParameterError: The engine refuses a value.
    """
    return sampling.sampling_params(
        {**MESSAGES_SAMPLING.defaults(), **request.sampling},
        max_tokens=request.max_tokens,
        json_schema=_schema(request),
    )


def _schema(request: MessagesRequest) -> str | None:
    given = {"output_config.format": request.output_config.format, "output_format": request.output_format}
    (field, wanted), *others = [item for item in given.items() if item[1] is not None] or [("", None)]
    if wanted is None:
        return None
    if others:
        raise FieldError(others[0][0], f"cannot be used with {field}: choose one")
    return _schema_of(wanted, field)


def _schema_of(wanted: Mapping[str, Any], field: str) -> str:
    if (kind := wanted.get("type")) != "json_schema":
        raise FieldError(f"{field}.type", f"must be json_schema, got {shown(kind)}")
    if wanted.get("schema") is None:
        raise FieldError(f"{field}.schema", "is required")
    return schema_text(wanted["schema"], f"{field}.schema")


def ignored_fields(params: SamplingParams) -> list[str]:
    """Known fields that were given and have no effect: only its schema ends a document."""
    return ["stop_sequences"] if params.json_schema is not None and params.stop else []
