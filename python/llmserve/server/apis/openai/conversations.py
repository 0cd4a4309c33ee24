"""A chat request as a conversation that an assistant answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.sampling import check_prompt_logprobs, sampling_params, turn_limit
from llmserve.server.conversation import Conversation
from llmserve.server.conversation.messages import check_parts, template_of, turn_variables, variables_of
from llmserve.server.conversation.tool_choice import choose_tools, read_tools
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of


def conversation_of(request: ChatRequest, *, may_bring_template: bool = False) -> Conversation:
    """The conversation. `may_bring_template` says whether a request may have a chat template of its own.

    Raises:
        FieldError: A field is wrong, or asks for something unsupported.
    """
    if request.modalities not in (None, ["text"]):
        raise FieldError("modalities", "must be [text]: llmserve generates text only")
    for index, message in enumerate(request.messages):
        check_parts(message.get("content"), f"messages[{index}].content")
        _check_calls(message.get("tool_calls"), f"messages[{index}].tool_calls")
    prefixed = _prefixed(request.messages)
    tools = read_tools(request.tools, is_nested=True)
    mode, callable_tools = choose_tools(tools, request.tool_choice)
    return Conversation(
        messages=[_plain(message) for message in request.messages],
        tools=tools,
        callable_tools=callable_tools,
        mode=mode,
        is_parallel=request.parallel_tool_calls,
        template=template_of(request.chat_template, is_allowed=may_bring_template),
        documents=request.documents,
        max_prompt_tokens=request.truncate_prompt_tokens,
        variables={
            **variables_of(request.chat_template_kwargs, request.reasoning_effort),
            **_generation_options(request, prefixed),
        },
        keeps_blanks=request.reasoning_format == "none",
        reasoning_limit=request.reasoning_limit,
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


def _prefixed(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The field that marks the last message as one to continue: Mistral's and DeepSeek's `prefix`."""
    for index, message in enumerate(messages):
        field, prefix = f"messages[{index}].prefix", message.get("prefix")
        if prefix is not None and not isinstance(prefix, bool):
            raise FieldError(field, f"must be a boolean, got {kind_of(prefix)}")
        if prefix and (index != len(messages) - 1 or message["role"] != "assistant"):
            raise FieldError(field, "must be on the last message, which must be the assistant's")
        if prefix:
            return field
    return None


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": None, **{name: value for name, value in message.items() if name != "prefix"}}


def _generation_options(request: ChatRequest, prefixed: str | None) -> dict[str, Any]:
    if not request.continue_final_message and prefixed is None:
        return {"add_generation_prompt": request.add_generation_prompt is not False}
    if request.add_generation_prompt:
        field = prefixed or "continue_final_message"
        raise FieldError(field, "cannot be used with add_generation_prompt: choose one")
    return turn_variables(is_continued=True)


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
    return sampling_params(
        request.sampling,
        max_tokens=turn_limit(request),
        logprobs=(top or 0) if request.logprobs else None,
        prompt_logprobs=request.prompt_logprobs,
    )
