"""The chat templates of one model, as prompts that the engine takes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmserve.chat import ChatPrompt, NextTurn
from llmserve.errors import InvalidParameterError, TemplateError
from llmserve.templates import variants
from llmserve.templates.capabilities import Capabilities, capabilities
from llmserve.templates.environment import render
from llmserve.templates.marks import Marker, unmark
from llmserve.templates.messages import adapted, find_odd_arguments
from llmserve.templates.plain import PLAIN_STOP, PLAIN_TEMPLATE
from llmserve.templates.turns import TokenTexts, find_next_turn
from llmserve.types import ModelInfo

__all__ = ["ChatTemplates"]


class ChatTemplates:
    """Renders messages with the chat templates of a model. Usable from any thread."""

    __slots__ = ("_info", "_marker", "_tokens")

    def __init__(self, info: ModelInfo) -> None:
        self._info = info
        self._marker = Marker(info.control_tokens)
        self._tokens = TokenTexts(info.control_tokens, info.end_tokens)

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **variables: Any,
    ) -> ChatPrompt:
        """The prompt of messages; see `Engine.chat_prompt`."""
        if add_generation_prompt and continue_final_message:
            raise InvalidParameterError(
                "cannot be set together with add_generation_prompt", field="continue_final_message"
            )
        source = variants.choose(self._info, template, bool(tools))
        try:
            takes = capabilities(source)
            marked_messages = self._marker.value(adapted(messages, takes))
            marked_variables = self._variables(variables, tools, takes)
        except RecursionError:
            raise InvalidParameterError("nested too deeply", field="messages") from None
        try:
            marked = _render(source, marked_messages, add_generation_prompt, marked_variables)
        except TemplateError:
            if takes.takes_objects:
                _check_arguments(source, marked_messages, marked_variables)
            raise
        if continue_final_message:
            marked = _cut_after(marked, marked_messages[-1].get("content") if marked_messages else None)
        return ChatPrompt(text=unmark(marked), marked=marked, stop=_stop(source))

    def next_turn(
        self,
        user_text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **variables: Any,
    ) -> NextTurn:
        """How a conversation goes on; see `Engine.next_turn`."""
        if not isinstance(user_text, str):
            raise InvalidParameterError(f"must be a str, got {user_text!r}", field="user_text")
        source = variants.choose(self._info, template, bool(tools))
        takes = capabilities(source)
        marked_variables = self._variables(variables, tools, takes)

        def render_dummy(messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
            return _render(source, adapted(messages, takes), add_generation_prompt, marked_variables)

        turn = find_next_turn(render_dummy, self._marker.text(user_text), self._tokens)
        return replace(turn, stop=_stop(source))

    def _variables(
        self, variables: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] | None, takes: Capabilities
    ) -> dict[str, Any]:
        """What the template gets beside the messages; what a client may have written is marked."""
        if tools and not takes.shows_tools:
            raise TemplateError("the chat template does not support tools")
        given = {"documents": None, **variables, "tools": list(tools) if tools else None}
        return {**self._info.special_tokens, **self._marker.value(given)}


def _render(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    add_generation_prompt: bool,
    variables: Mapping[str, Any],
) -> str:
    rendered = {"messages": messages, "add_generation_prompt": add_generation_prompt}
    return render(source, {**variables, **rendered})


def _check_arguments(
    source: str, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
) -> None:
    """Raises `InvalidParameterError` if a template failed on arguments of tool calls that are no objects."""
    found = find_odd_arguments(messages)
    if found is None:
        return
    name, mended = found
    with contextlib.suppress(TemplateError):
        _render(source, mended, False, variables)
        raise InvalidParameterError("must be a JSON object: the chat template takes no other", field=name)


def _cut_after(text: str, content: Any) -> str:
    """The text up to the end of the last message's content, so that the model goes on with it."""
    if isinstance(content, list):
        content = content[-1].get("text") if content else None
    if not content or not content.strip():
        raise TemplateError("continue_final_message: the last message has no text")
    start = text.rfind(content.strip())
    if start < 0:
        raise TemplateError(
            "continue_final_message: the chat template does not show the last message as it is"
        )
    # White space at its end stays where the template did not trim it.
    is_whole = text.startswith(content.lstrip(), start)
    return text[: start + len(content.lstrip() if is_whole else content.strip())]


def _stop(source: str) -> tuple[str, ...]:
    return PLAIN_STOP if source == PLAIN_TEMPLATE else ()
