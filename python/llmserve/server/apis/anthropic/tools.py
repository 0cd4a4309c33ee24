"""Tools and the choice among them, as Anthropic's clients send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.conversation.tool_choice import distinct_tools, read_function, tool_named
from llmserve.server.conversation.tools import Tool, ToolMode
from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import shown


def tools_of(request: MessagesRequest) -> tuple[Tool, ...]:
    """The tools of a request.

    Raises:
        FieldError: One is wrong, or one of those that Anthropic's own servers have.
    """
    return distinct_tools(request.tools, _tool)


def _tool(tool: Mapping[str, Any], where: str) -> Tool:
    if (kind := tool.get("type")) not in (None, "custom"):
        raise FieldError(f"{where}.type", f"must be custom, got {shown(kind)}: llmserve has no tools itself")
    if tool.get("input_schema") is None:
        raise FieldError(f"{where}.input_schema", "is required")
    return read_function(tool, where, "input_schema")


def choose_tools(request: MessagesRequest, tools: tuple[Tool, ...]) -> tuple[ToolMode, tuple[Tool, ...]]:
    """Whether the turn calls tools, and which it may call.

    Raises:
        FieldError: The choice asks for a tool that there is not.
    """
    choice = request.tool_choice
    if choice.type == "tool":
        if choice.name is None:
            raise FieldError("tool_choice.name", "is required")
        return "required", (tool_named(tools, choice.name, "tool_choice.name"),)
    if choice.type == "any" and not tools:
        raise FieldError("tool_choice", "is any, but there are no tools")
    if choice.type == "none" or not tools:
        return "none", tools
    return ("required" if choice.type == "any" else "auto"), tools
