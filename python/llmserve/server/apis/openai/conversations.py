"""A chat request as a conversation that an assistant answers."""

from __future__ import annotations

from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.sampling import check_prompt_logprobs, sampling_params
from llmserve.server.apis.openai.schema import token_limit
from llmserve.server.conversation import Conversation
from llmserve.server.conversation.messages import check_parts, template_of, variables_of
from llmserve.server.conversation.tool_choice import choose_tools, read_tools
from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import wire_name
from llmserve.server.web.schema import kind_of


def conversation_of(request: ChatRequest, *, may_bring_template: bool = False) -> Conversation:
    """The conversation. `may_bring_template` says whether a request may have a chat template of its own.

    Raises:
        FieldError: A field is wrong, or asks for something unsupported.
    """
    if request.functions is not None:
        raise FieldError(
            "functions", "is the old form of tools, which is not supported: use tools and tool_choice"
        )
    if request.modalities not in (None, ["text"]):
        raise FieldError("modalities", "must be [text]: llmserve generates text only")
    for index, message in enumerate(request.messages):
        check_parts(message.get("content"), f"messages[{index}].content")
        _check_calls(message.get("tool_calls"), f"messages[{index}].tool_calls")
    tools = read_tools(request.tools, is_nested=True)
    mode, callable_tools = choose_tools(tools, request.tool_choice)
    return Conversation(
        messages=[{"content": None, **message} for message in request.messages],
        tools=tools,
        callable_tools=callable_tools,
        mode=mode,
        is_parallel=request.parallel_tool_calls,
        template=template_of(request.chat_template, is_allowed=may_bring_template),
        documents=request.documents,
        variables={
            **variables_of(request.chat_template_kwargs, request.reasoning_effort),
            **_generation_options(request),
        },
        keeps_blanks=request.reasoning_format == "none",
    )


def _check_calls(calls: Any, where: str) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise FieldError(where, f"must be an array, got {kind_of(calls)}")
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise FieldError(f"{where}[{index}]", "must have a function with a name")


def _generation_options(request: ChatRequest) -> dict[str, Any]:
    if not request.continue_final_message:
        return {"add_generation_prompt": request.add_generation_prompt is not False}
    if request.add_generation_prompt:
        raise FieldError("continue_final_message", "cannot be used with add_generation_prompt: choose one")
    return {"add_generation_prompt": False, "continue_final_message": True}


def chat_params(request: ChatRequest) -> SamplingParams:
    """The parameters of the first choice.

    Raises:
        FieldError: A field is wrong.
        InvalidParameterError: The engine refuses a value.
    """
    top = request.top_logprobs
    if top is not None and not request.logprobs:
        raise FieldError("top_logprobs", "needs logprobs to be true")
    check_prompt_logprobs(request.prompt_logprobs, is_stream=request.stream)
    max_tokens = token_limit(request)
    if max_tokens == 0:
        field = wire_name(request, "max_tokens")
        raise FieldError(field, "must be at least 1, or -1 for the context length, got 0", limit=1)
    return sampling_params(
        request.sampling,
        max_tokens=max_tokens,
        logprobs=(top or 0) if request.logprobs else None,
        prompt_logprobs=request.prompt_logprobs,
    )
