"""Tools and the choice among them, as clients send them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmserve.server.conversation.json_formats import schema_text
from llmserve.server.conversation.tools import Tool, ToolMode
from llmserve.server.refusals import FieldError
from llmserve.server.web.names import Names
from llmserve.server.web.schema import kind_of, shown

MAX_TOOLS = 128

# OpenAI's characters, and the dots and colons of others: no name is the text of a control token.
_NAMES = Names(128, "_.:-")
_MODES: Mapping[str, ToolMode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_tools(tools: Sequence[Mapping[str, Any]], *, is_nested: bool) -> tuple[Tool, ...]:
    """The functions of `tools`: nested in `function` as in chat, or flat as in responses.

    Both forms are taken. `is_nested` says which of them the dialect has, and errors name.

    Raises:
        FieldError: One of the tools is not a function.
    """
    return distinct_tools(tools, functools.partial(_tool, is_nested=is_nested))


def distinct_tools(
    tools: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any], str], Tool]
) -> tuple[Tool, ...]:
    """What a dialect's `read` makes of each of `tools`, given with its name in the request.

    Raises:
        FieldError: There are too many, or two have one name.
    """
    if len(tools) > MAX_TOOLS:
        raise FieldError("tools", f"must have at most {MAX_TOOLS} tools, got {len(tools)}", limit=MAX_TOOLS)
    made = tuple(read(tool, f"tools[{index}]") for index, tool in enumerate(tools))
    names = [tool.name for tool in made]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FieldError(f"tools[{index}]", f"has the name of another tool, {name}")
    return made


def _tool(tool: Mapping[str, Any], where: str, *, is_nested: bool) -> Tool:
    kind = tool.get("type", "function")
    if kind != "function":
        raise FieldError(f"{where}.type", f"must be function, got {shown(kind)}")
    function = tool
    if "function" in tool:
        where = f"{where}.function"
        function = tool["function"]
        if not isinstance(function, dict):
            raise FieldError(where, f"must be an object, got {kind_of(function)}")
    elif is_nested and "name" not in tool:
        raise FieldError(f"{where}.function", "is required")
    if function.get("input_schema") is not None:
        raise FieldError(f"{where}.input_schema", "is not a field of a function: use parameters")
    return read_function(function, where, "parameters")


def read_function(function: Mapping[str, Any], where: str, schema_field: str) -> Tool:
    """A function whose arguments are described by a field of this name.

    Raises:
        FieldError: A field is wrong.
    """
    return Tool(
        name=_name(function.get("name"), f"{where}.name"),
        description=_description(function.get("description"), f"{where}.description"),
        parameters=_parameters(function.get(schema_field), f"{where}.{schema_field}"),
        parameters_field=f"{where}.{schema_field}",
    )


def _name(name: Any, where: str) -> str:
    if name is None:
        raise FieldError(where, "is required")
    if not isinstance(name, str):
        raise FieldError(where, f"must be a string, got {kind_of(name)}")
    return _NAMES.check(name, where)


def _description(description: Any, where: str) -> str | None:
    if description is not None and not isinstance(description, str):
        raise FieldError(where, f"must be a string, got {kind_of(description)}")
    return description


def _parameters(parameters: Any, where: str) -> dict[str, Any] | None:
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise FieldError(where, f"must be an object, got {kind_of(parameters)}")
    if parameters.get("type", "object") != "object":
        raise FieldError(f"{where}.type", "must be object")
    schema_text(parameters, where)
    return parameters


def choose_tools(tools: tuple[Tool, ...], choice: Any) -> tuple[ToolMode, tuple[Tool, ...]]:
    """Whether the turn calls tools, and which it may call.

    Raises:
        FieldError: The choice is invalid, or names an unknown tool.
    """
    if choice is None:
        return ("auto" if tools else "none"), tools
    if isinstance(choice, str):
        if choice not in _MODES:
            raise FieldError("tool_choice", f"must be auto, none or required, got {choice[:32]!r}")
        mode = _MODES[choice]
        if mode == "required" and not tools:
            raise FieldError("tool_choice", "is required, but there are no tools")
        return (mode if tools else "none"), tools
    if not isinstance(choice, dict):
        raise FieldError("tool_choice", f"must be a string or an object, got {kind_of(choice)}")
    if choice.get("type") == "allowed_tools":
        return _allowed(tools, choice.get("allowed_tools", choice))
    return "required", (_named(tools, choice, "tool_choice"),)


def _allowed(tools: tuple[Tool, ...], allowed: Any) -> tuple[ToolMode, tuple[Tool, ...]]:
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    if not isinstance(listed, list) or not listed or not all(isinstance(item, dict) for item in listed):
        raise FieldError("tool_choice.tools", "must be an array of objects")
    mode = allowed.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise FieldError("tool_choice.mode", "must be auto or required")
    named = [_named(tools, item, f"tool_choice.tools[{index}]") for index, item in enumerate(listed)]
    return _MODES[mode], tuple(_unique(named))


def _unique(tools: Sequence[Tool]) -> list[Tool]:
    return list({tool.name: tool for tool in tools}.values())


def _named(tools: tuple[Tool, ...], choice: Mapping[str, Any], where: str) -> Tool:
    if choice.get("type", "function") != "function":
        raise FieldError(f"{where}.type", "must be function")
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, dict) else None
    return tool_named(tools, name, f"{where}.function.name")


def tool_named(tools: Sequence[Tool], name: Any, field: str) -> Tool:
    """The tool with the name that `field` gives.

    Raises:
        FieldError: There is none.
    """
    for tool in tools:
        if tool.name == name:
            return tool
    raise FieldError(field, f"must be the name of a tool, got {shown(name)}")
