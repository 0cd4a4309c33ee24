"""Pure functions: a request -> conversation and parameters."""

from __future__ import annotations

from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.ollama.messages import conversation_messages, is_prefilled
from llmserve.server.apis.ollama.schema import (
    OPTIONS,
    OllamaChatRequest,
    OllamaGenerateRequest,
    OllamaRequest,
)
from llmserve.server.conversation import Conversation, ReasoningLimit
from llmserve.server.conversation.messages import reasoning_variables, template_of, turn_variables
from llmserve.server.conversation.reasoning_limit import NO_LIMIT, NO_REASONING
from llmserve.server.conversation.tool_choice import read_tools
from llmserve.server.fields import sampling
from llmserve.server.refusals import FieldError


def sampling_params(request: OllamaRequest) -> SamplingParams:
    """The engine's parameters, without what the model's settings say.

    Raises:
        FieldError: A field is wrong.
        InvalidParameterError: The engine refuses a value.
    """
    top = request.top_logprobs
    if top is not None and not request.logprobs:
        raise FieldError("top_logprobs", "needs logprobs to be true")
    options = request.options
    values = {**OPTIONS.defaults(), **options.sampling}
    limit = options.num_predict or 0
    return sampling.sampling_params(
        {**values, "top_k": max(0, values["top_k"])},
        max_tokens=limit if limit > 0 else None,
        logprobs=(top or 0) if request.logprobs else None,
        json_schema=request.format,
    )


def thinking_variables(think: bool | str | None) -> dict[str, Any]:
    """The variables of chat templates that say whether and how much to reason."""
    if think is None:
        return {}
    on = reasoning_variables(is_on=bool(think))
    if isinstance(think, str):
        return {**on, "reasoning_effort": think}
    return on if think else {**on, "reasoning_effort": "none"}


def reasoning_limit(think: bool | str | None) -> ReasoningLimit:
    """Reasoning that is off is closed at once where a template has nothing to turn it off with."""
    return NO_REASONING if think is False else NO_LIMIT


def chat_conversation(request: OllamaChatRequest) -> Conversation:
    """The conversation of a chat.

    Raises:
        FieldError: A message or a tool is wrong.
    """
    tools = read_tools(request.tools, is_nested=True)
    is_continued = is_prefilled(request.messages)
    return Conversation(
        messages=conversation_messages(request.messages),
        tools=tools,
        callable_tools=tools,
        mode="auto" if tools else "none",
        reasoning_limit=reasoning_limit(request.think),
        variables={**thinking_variables(request.think), **turn_variables(is_continued=is_continued)},
    )


def prompt_conversation(request: OllamaGenerateRequest, *, may_bring_template: bool) -> Conversation:
    """The conversation of a prompt. `may_bring_template` says whether it may have a template of its own.

    Raises:
        FieldError: It has one, and may not.
    """
    system = [{"role": "system", "content": request.system}] if request.system else []
    return Conversation(
        messages=[*system, {"role": "user", "content": request.prompt}],
        template=template_of(request.template, is_allowed=may_bring_template, field="template"),
        reasoning_limit=reasoning_limit(request.think),
        variables=thinking_variables(request.think),
    )


def check_raw(request: OllamaGenerateRequest) -> None:
    """Refuses what a raw prompt has no place for.

    Raises:
        FieldError: There is something of it.
    """
    given = [name for name in ("system", "template", "context") if getattr(request, name)]
    if request.raw and given:
        raise FieldError(given[0], "cannot be used with raw, which uses the prompt as it is")
