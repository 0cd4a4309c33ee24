"""A request of `/v1/responses` as a conversation that an assistant answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.openai.sampling import sampling_params, turn_limit
from llmserve.server.conversation import Conversation
from llmserve.server.conversation.messages import check_parts, template_of, variables_of
from llmserve.server.conversation.tool_choice import choose_tools, read_tools
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import text_in
from llmserve.server.web.schema import kind_of, shown

_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
"""How ids of items begin."""

_ROLES = ("user", "assistant", "system", "developer")


def conversation_of(
    request: ResponsesRequest,
    previous: Sequence[Mapping[str, Any]] = (),
    *,
    may_bring_template: bool = False,
) -> Conversation:
    """The conversation, whose `previous` items are those of the response that the request continues.

    `may_bring_template` says whether a request may have a chat template of its own.

    Raises:
        FieldError: A field is wrong, or asks for something unsupported.
    """
    if request.prompt is not None:
        raise FieldError("prompt", "is not supported, because templates are not stored: use input")
    tools = read_tools(request.tools, is_nested=False)
    mode, callable_tools = choose_tools(tools, request.tool_choice)
    messages, names = messages_of(request, previous)
    return Conversation(
        messages=messages,
        names=names,
        tools=tools,
        callable_tools=callable_tools,
        mode=mode,
        is_parallel=request.parallel_tool_calls,
        documents=request.documents,
        max_prompt_tokens=request.truncate_prompt_tokens,
        template=template_of(request.chat_template, is_allowed=may_bring_template),
        variables=variables_of(request.chat_template_kwargs, request.reasoning.effort),
        reasoning_limit=request.reasoning_limit,
    )


def response_params(request: ResponsesRequest) -> SamplingParams:
    """The parameters.

    Raises:
        FieldError: A field is wrong.
        InvalidParameterError: The engine refuses a value.
    """
    return sampling_params(request.sampling, max_tokens=turn_limit(request), logprobs=None)


def messages_of(
    request: ResponsesRequest, previous: Sequence[Mapping[str, Any]] = ()
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Instructions, previous items and input as chat messages, and the names of these and their calls in the
    request.

    Raises:
        FieldError: An item is of a kind that cannot be shown to a model.
    """
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if not request.input and not isinstance(request.input, str):
        raise FieldError("input", "must have at least one item, got none", limit=1)
    items = _Items(messages)
    if messages:
        items.names["messages[0]"] = "instructions"
    items.read(previous, lambda index: "previous_response_id")
    if isinstance(request.input, str):
        items.read([{"role": "user", "content": request.input}], lambda index: "input")
    else:
        items.read(request.input, lambda index: f"input[{index}]")
    return items.messages, items.names


def stored_items(given: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The input as items in the form in which clients read them."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [_stored(item) for item in items]


def check_items(items: Sequence[Mapping[str, Any]], field: str) -> None:
    """Refuses items that cannot be shown to a model.

    Raises:
        FieldError: There is one.
    """
    _Items([]).read(items, lambda index: f"{field}[{index}]")


def _stored(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type", "message")
    shown = {**item, "type": kind, "id": item.get("id") or f"{_PREFIXES[kind]}_{secrets.token_hex(12)}"}
    if kind != "reasoning":
        shown.setdefault("status", "completed")
    if kind == "message" and isinstance(text := item["content"], str):
        is_own = item["role"] == "assistant"
        part = {"type": "output_text", "annotations": []} if is_own else {"type": "input_text"}
        shown["content"] = [{**part, "text": text}]
    return shown


class _Items:
    """Reads items; reasoning and calls of one turn become one message."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.names: dict[str, str] = {}
        """The items of messages and calls."""
        self._called: dict[str, str] = {}
        self._reasoning: list[str] = []

    def read(self, items: Sequence[Mapping[str, Any]], name: Callable[[int], str]) -> None:
        """Appends the messages of items, which the request calls by these names."""
        for index, item in enumerate(items):
            where = name(index)
            kind = item.get("type", "message")
            if kind == "message":
                self._message(item, where)
            elif kind == "function_call":
                self._call(item, where)
            elif kind == "function_call_output":
                self._result(item, where)
            elif kind == "reasoning":
                self._thought(item)
            else:
                known = "message, function_call, function_call_output or reasoning"
                raise FieldError(f"{where}.type", f"must be {known}, got {shown(kind)}")

    def _append(self, message: dict[str, Any], where: str) -> None:
        self.names[f"messages[{len(self.messages)}]"] = where
        self.messages.append(message)

    def _message(self, item: Mapping[str, Any], where: str) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise FieldError(
                f"{where}.role", f"must be {', '.join(_ROLES[:-1])} or {_ROLES[-1]}, got {shown(role)}"
            )
        if item.get("prefix"):
            raise FieldError(f"{where}.prefix", "is not supported: only chat continues a message")
        content = item.get("content")
        if not isinstance(content, str | list):
            raise FieldError(f"{where}.content", f"must be a string or an array, got {kind_of(content)}")
        check_parts(content, f"{where}.content")
        if isinstance(content, list):
            content = [{"type": "text", "text": part["text"]} for part in content]
        message = {"role": role, "content": content}
        reasoning = self._taken_reasoning()
        if role == "assistant":
            message |= reasoning
        self._append(message, where)

    def _call(self, item: Mapping[str, Any], where: str) -> None:
        call_id, name = text_in(item, "call_id", where), text_in(item, "name", where)
        function = {"name": name, "arguments": item.get("arguments")}
        self._called[call_id] = name
        last = self.messages[-1] if self.messages else None
        if last is None or last["role"] != "assistant" or self._reasoning:
            last = {"role": "assistant", "content": None, **self._taken_reasoning()}
            self._append(last, where)
        calls = last.setdefault("tool_calls", [])
        self.names[f"messages[{len(self.messages) - 1}].tool_calls[{len(calls)}].function"] = where
        calls.append({"id": call_id, "type": "function", "function": function})

    def _result(self, item: Mapping[str, Any], where: str) -> None:
        call_id = text_in(item, "call_id", where)
        output = item.get("output")
        if not isinstance(output, str | list):
            raise FieldError(f"{where}.output", f"must be a string or an array, got {kind_of(output)}")
        check_parts(output, f"{where}.output")
        if isinstance(output, list):
            output = "".join(part["text"] for part in output)
        message = {"role": "tool", "tool_call_id": call_id, "content": output}
        if call_id in self._called:
            message["name"] = self._called[call_id]
        self._append(message, where)

    def _thought(self, item: Mapping[str, Any]) -> None:
        content = item.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                self._reasoning.append(part["text"])

    def _taken_reasoning(self) -> dict[str, Any]:
        taken, self._reasoning = self._reasoning, []
        return {"reasoning_content": "".join(taken)} if taken else {}
