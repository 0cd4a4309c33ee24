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
from llmserve.server.conversation.messages import (
    template_of,
    thinking_variables,
    turn_options,
    variables_of,
)
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


def think_variables(think: bool | str | None) -> dict[str, Any]:
    """The variables by which chat templates turn reasoning on or off."""
    if think is None:
        return {}
    effort = think if isinstance(think, str) else None if think else "none"
    return variables_of(thinking_variables(thinks=bool(think)), effort)


def _limit(think: bool | str | None) -> ReasoningLimit:
    return NO_REASONING if think is False else NO_LIMIT


def chat_conversation(request: OllamaChatRequest) -> Conversation:
    """The conversation of a chat.

    Raises:
        FieldError: A message or a tool is wrong.
    """
    tools = read_tools(request.tools, is_nested=True)
    return Conversation(
        messages=conversation_messages(request.messages),
        tools=tools,
        callable_tools=tools,
        mode="auto" if tools else "none",
        reasoning_limit=_limit(request.think),
        variables={
            **think_variables(request.think),
            **turn_options(continues=is_prefilled(request.messages)),
        },
    )


def prompt_conversation(request: OllamaGenerateRequest, *, may_bring_template: bool) -> Conversation:
    """The conversation of a prompt. `may_bring_template` says whether it may have a template of its own.

    Raises:
        FieldError: It has one, and may not.
    """
    system = [{"role": "system", "content": request.system}] if request.system else []
    return Conversation(
        messages=[*system, {"role": "user", "content": request.prompt}],
        template=template_of(request.template, "template", is_allowed=may_bring_template),
        reasoning_limit=_limit(request.think),
        variables=think_variables(request.think),
    )
