"""What clients send with their messages: content parts, and variables of the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.server.refusals import FieldError
from llmserve.server.web.schema import kind_of, shown

# Variables of a template that a request cannot set: they are arguments of what renders it.
_RESERVED = frozenset(
    {"self", "messages", "tools", "template", "add_generation_prompt", "continue_final_message"}
)


def check_parts(content: Any, where: str) -> None:
    """Refuses content parts that are not text, by their kind.

    Raises:
        FieldError: A part is not text.
    """
    if not isinstance(content, list):
        return
    for index, part in enumerate(content):
        name = f"{where}[{index}]"
        if not isinstance(part, dict):
            raise FieldError(name, f"must be an object, got {kind_of(part)}")
        kind = part.get("type")
        if kind not in ("text", "input_text", "output_text"):
            raise FieldError(f"{name}.type", f"must be text (no images, audio or files), got {shown(kind)}")
        text = part.get("text")
        if not isinstance(text, str):
            raise FieldError(f"{name}.text", f"must be a string, got {kind_of(text)}")


def template_of(given: str | None, *, is_allowed: bool, field: str = "chat_template") -> str | None:
    """The chat template that a request brings; an empty one is none.

    Raises:
        FieldError: The server does not allow any.
    """
    if given and not is_allowed:
        setting = "LLMSERVE_REQUEST_CHAT_TEMPLATE"
        raise FieldError(field, f"is not allowed here: {setting} is off")
    return given or None


def reasoning_variables(*, is_on: bool) -> dict[str, bool]:
    """The variables by which the templates of reasoning models turn it on and off."""
    return {"enable_thinking": is_on, "thinking": is_on}


def turn_variables(*, is_continued: bool) -> dict[str, bool]:
    """The options of a template for a turn that begins, or that goes on with the last message."""
    if is_continued:
        return {"add_generation_prompt": False, "continue_final_message": True}
    return {"add_generation_prompt": True}


def variables_of(given: Mapping[str, Any], effort: str | None) -> dict[str, Any]:
    """Variables of a template, with the effort under the names that templates know."""
    for name in given:
        if name in _RESERVED:
            raise FieldError(f"chat_template_kwargs.{name}", "cannot be set")
    if effort is None:
        return dict(given)
    known: dict[str, Any] = {"reasoning_effort": effort}
    if effort == "none":
        known |= reasoning_variables(is_on=False)
    return {**known, **given}
